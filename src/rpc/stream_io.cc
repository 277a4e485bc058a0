#include "rpc/stream_io.h"

#include <sys/socket.h>
#include <unistd.h>

namespace boxlite::rpc {

Result<std::optional<size_t>> read_some(int fd, std::span<uint8_t> space) {
    ssize_t n;
    do n = ::read(fd, space.data(), space.size());
    while (n < 0 && errno == EINTR);
    if (n >= 0) return std::optional(static_cast<size_t>(n));
    if (errno == EAGAIN) return std::optional<size_t>();
    // A peer that went away with our bytes unread.
    if (errno == ECONNRESET) return std::optional<size_t>(0);
    return base::errno_error(ErrorCode::kPortal, "receive from the peer");
}

Result<std::optional<size_t>> write_some(int fd, std::span<const iovec> parts) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    ssize_t n;
    do {
        n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK) n = ::writev(fd, parts.data(), static_cast<int>(parts.size()));
    } while (n < 0 && errno == EINTR);
    if (n >= 0) return std::optional(static_cast<size_t>(n));
    if (errno == EAGAIN) return std::optional<size_t>();
    return base::errno_error(ErrorCode::kPortal, "send to the peer");
}

}  // namespace boxlite::rpc
