#include "base/fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace boxlite::base {

namespace {

constexpr size_t kMaxFdsPerMessage = 32;

// Fills `address` for `path`. When the path is too long for sun_path, `dir` is opened and the
// address goes through /proc/self/fd.
Result<socklen_t> unix_address(const std::string& path, sockaddr_un& address, Fd& dir) {
    address = {};
    address.sun_family = AF_UNIX;
    std::string short_path = path;
    if (path.size() >= sizeof address.sun_path) {
        const size_t slash = path.rfind('/');
        if (slash == std::string::npos)
            return make_error(ErrorCode::kInvalidArgument, "socket name '{}' is too long", path);
        dir = TRY(open_file(path.substr(0, slash), O_PATH | O_DIRECTORY));
        short_path = fmt::format("/proc/self/fd/{}/{}", dir.get(), path.substr(slash + 1));
        if (short_path.size() >= sizeof address.sun_path)
            return make_error(ErrorCode::kInvalidArgument, "socket name '{}' is too long", path);
    }
    std::memcpy(address.sun_path, short_path.c_str(), short_path.size() + 1);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + short_path.size() + 1);
}

}  // namespace

void Fd::reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
}

Result<Fd> Fd::duplicate() const {
    const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return errno_error(ErrorCode::kInternal, "duplicate a descriptor");
    return Fd(copy);
}

Result<Fd> open_file(const std::string& path, int flags, mode_t mode) {
    int fd;
    do fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return errno_error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kStorage, "open '{}'", path);
    return Fd(fd);
}

Result<FdPair> make_pipe(int extra_flags) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | extra_flags) < 0) return errno_error(ErrorCode::kInternal, "make a pipe");
    return FdPair{Fd(fds[0]), Fd(fds[1])};
}

Result<FdPair> make_socketpair(int type) {
    int fds[2];
    if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
        return errno_error(ErrorCode::kInternal, "make a socket pair");
    return FdPair{Fd(fds[0]), Fd(fds[1])};
}

Result<Fd> make_eventfd() {
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return errno_error(ErrorCode::kInternal, "make an eventfd");
    return Fd(fd);
}

Result<Fd> make_memfd(const char* name, uint64_t size) {
    Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd.valid()) return errno_error(ErrorCode::kInternal, "make a memfd");
    if (::ftruncate(fd.get(), static_cast<off_t>(size)) < 0)
        return errno_error(ErrorCode::kResourceExhausted, "size a memfd to {} bytes", size);
    return fd;
}

Result<void> set_nonblocking(int fd, bool on) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) < 0)
        return errno_error(ErrorCode::kInternal, "change a descriptor's blocking mode");
    return {};
}

Result<Fd> listen_unix(const std::string& path, int type) {
    sockaddr_un address;
    Fd dir;
    const socklen_t length = TRY(unix_address(path, address, dir));
    Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) return errno_error(ErrorCode::kInternal, "make a unix socket");
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) < 0)
        return errno_error(ErrorCode::kStorage, "bind '{}'", path);
    if (::listen(fd.get(), 128) < 0) return errno_error(ErrorCode::kStorage, "listen on '{}'", path);
    return fd;
}

Result<Fd> connect_unix(const std::string& path, int type) {
    sockaddr_un address;
    Fd dir;
    const socklen_t length = TRY(unix_address(path, address, dir));
    Fd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    if (!fd.valid()) return errno_error(ErrorCode::kInternal, "make a unix socket");
    int result;
    do result = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length);
    while (result < 0 && errno == EINTR);
    if (result < 0) return errno_error(ErrorCode::kPortal, "connect to '{}'", path);
    return fd;
}

Result<void> write_all(int fd, std::span<const uint8_t> data) {
    while (!data.empty()) {
        const ssize_t n = ::write(fd, data.data(), data.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kStorage, "write {} bytes", data.size());
        data = data.subspan(static_cast<size_t>(n));
    }
    return {};
}

Result<void> read_exact(int fd, std::span<uint8_t> data) {
    while (!data.empty()) {
        const ssize_t n = ::read(fd, data.data(), data.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kStorage, "read {} bytes", data.size());
        if (n == 0) return make_error(ErrorCode::kStorage, "end of file with {} bytes to come", data.size());
        data = data.subspan(static_cast<size_t>(n));
    }
    return {};
}

Result<void> pwrite_all(int fd, std::span<const uint8_t> data, uint64_t offset) {
    while (!data.empty()) {
        const ssize_t n = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kStorage, "write {} bytes at {}", data.size(), offset);
        data = data.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
    return {};
}

Result<void> pread_exact(int fd, std::span<uint8_t> data, uint64_t offset) {
    while (!data.empty()) {
        const ssize_t n = ::pread(fd, data.data(), data.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kStorage, "read {} bytes at {}", data.size(), offset);
        if (n == 0)
            return make_error(ErrorCode::kStorage, "end of file at {} with {} bytes to come", offset,
                              data.size());
        data = data.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
    return {};
}

Result<void> send_with_fds(int socket, std::span<const uint8_t> data, std::span<const int> fds) {
    if (fds.size() > kMaxFdsPerMessage)
        return make_error(ErrorCode::kInternal, "{} descriptors in one message", fds.size());
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)] = {};
    while (!data.empty()) {
        iovec iov{const_cast<uint8_t*>(data.data()), data.size()};
        msghdr message{};
        message.msg_iov = &iov;
        message.msg_iovlen = 1;
        if (!fds.empty()) {
            message.msg_control = control;
            message.msg_controllen = CMSG_SPACE(fds.size_bytes());
            cmsghdr* header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(fds.size_bytes());
            std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
        }
        const ssize_t n = ::sendmsg(socket, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error(ErrorCode::kPortal, "send a message");
        data = data.subspan(static_cast<size_t>(n));
        fds = {};
    }
    return {};
}

Result<size_t> recv_with_fds(int socket, std::span<uint8_t> data, std::vector<Fd>& fds) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)];
    iovec iov{data.data(), data.size()};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n;
    do n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) return errno_error(ErrorCode::kPortal, "receive a message");
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            fds.emplace_back(fd);
        }
    }
    if (message.msg_flags & MSG_CTRUNC)
        return make_error(ErrorCode::kPortal, "a message carried more descriptors than allowed");
    return static_cast<size_t>(n);
}

}  // namespace boxlite::base
