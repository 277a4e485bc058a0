// Owned file descriptors and the system calls that make them. Every descriptor is close-on-exec.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace boxlite::base {

// Closes its descriptor when it goes. Movable, not copyable.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Fd() { reset(); }

    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1);
    Result<Fd> duplicate() const;

  private:
    int fd_ = -1;
};

struct FdPair {
    Fd first;   // read end of a pipe
    Fd second;  // write end of a pipe
};

Result<Fd> open_file(const std::string& path, int flags, mode_t mode = 0644);
Result<FdPair> make_pipe(int extra_flags = 0);
// `type` is SOCK_STREAM or SOCK_SEQPACKET, with SOCK_NONBLOCK or'ed in when wanted.
Result<FdPair> make_socketpair(int type);
Result<Fd> make_eventfd();
Result<Fd> make_memfd(const char* name, uint64_t size);
Result<void> set_nonblocking(int fd, bool on);

// Unix sockets; `type` as above. Paths longer than sockaddr_un allows work too: they are reached through
// the directory's descriptor.
// One that listens does not block.
Result<Fd> listen_unix(const std::string& path, int type = SOCK_STREAM);
Result<Fd> connect_unix(const std::string& path, int type = SOCK_STREAM);

// Transfers everything, over short transfers and EINTR. read_exact fails at end of file.
Result<void> write_all(int fd, std::span<const uint8_t> data);
Result<void> read_exact(int fd, std::span<uint8_t> data);
Result<void> pwrite_all(int fd, std::span<const uint8_t> data, uint64_t offset);
Result<void> pread_exact(int fd, std::span<uint8_t> data, uint64_t offset);

// One message with descriptors attached (SCM_RIGHTS). recv returns the bytes read, 0 at end of file.
Result<void> send_with_fds(int socket, std::span<const uint8_t> data, std::span<const int> fds);
Result<size_t> recv_with_fds(int socket, std::span<uint8_t> data, std::vector<Fd>& fds);

}  // namespace boxlite::base
