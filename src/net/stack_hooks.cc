#include "net/stack_hooks.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace boxlite::net {

namespace {

// libslirp's calls carry nothing that would tell whose they are.
Stack* calling = nullptr;

// While a dialer makes calls of its own.
class Pause {
  public:
    Pause() : was_(std::exchange(calling, nullptr)) {}
    ~Pause() { calling = was_; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

  private:
    Stack* was_;
};

}  // namespace

StackHooks::Scope::Scope(Stack& stack) {
    calling = &stack;
}

StackHooks::Scope::~Scope() {
    calling = nullptr;
}

// The destination is taken from the packet itself: the stack has translated that of its own subnet.
int StackHooks::connect(Stack& stack, int fd, const sockaddr* address) {
    const Pause pause;
    const auto to = endpoint_of(address);
    if (!to || !stack.current_) {
        errno = EACCES;
        return -1;
    }
    return stack.dialer_.connect(fd, {stack.current_->destination, to->port});
}

bool StackHooks::bind(Stack& stack, int fd) {
    if (!stack.to_publish_.valid()) return false;
    ::dup3(stack.to_publish_.get(), fd, O_CLOEXEC);
    stack.to_publish_.reset();
    stack.published_ = fd;
    return true;
}

}  // namespace boxlite::net

extern "C" {

int connect(int fd, const sockaddr* address, socklen_t length) {
    using boxlite::net::calling;
    if (calling) return boxlite::net::StackHooks::connect(*calling, fd, address);
    return static_cast<int>(::syscall(SYS_connect, fd, address, length));
}

ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* address, socklen_t length) {
    using boxlite::net::calling;
    // Datagrams and echoes do not go through it.
    if (calling) {
        errno = EACCES;
        return -1;
    }
    return ::syscall(SYS_sendto, fd, data, size, flags, address, length);
}

int bind(int fd, const sockaddr* address, socklen_t length) {
    using boxlite::net::calling;
    if (calling && boxlite::net::StackHooks::bind(*calling, fd)) return 0;
    return static_cast<int>(::syscall(SYS_bind, fd, address, length));
}
}
