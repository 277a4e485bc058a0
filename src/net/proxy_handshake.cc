#include "net/proxy_handshake.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace boxlite::net {

namespace {

constexpr size_t kMaxAnswer = 16 << 10;
constexpr size_t kMaxStatus = 100;

// The code and reason of a status line, fit for a log; "" for what is no HTTP.
std::string status_of(std::string_view head) {
    std::string_view line = head.substr(0, head.find("\r\n"));
    if (!line.starts_with("HTTP/1.") || line.size() < 12 || line[8] != ' ') return {};
    std::string status(line.substr(9, kMaxStatus));
    for (char& c : status)
        if (c < ' ' || c > '~') c = '?';
    return status;
}

}  // namespace

ProxyHandshake::ProxyHandshake(const std::string& target, const std::string& authorization)
    : request_(fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", target)) {
    if (!authorization.empty()) request_ += fmt::format("Proxy-Authorization: {}\r\n", authorization);
    request_ += "\r\n";
}

ProxyHandshake::Outcome ProxyHandshake::fail(std::string problem) {
    problem_ = std::move(problem);
    return Outcome::kFailed;
}

ProxyHandshake::Outcome ProxyHandshake::advance(int socket) {
    if (sent_ > 0) return read_answer(socket);
    // A fresh socket has room for all of it.
    const ssize_t n = ::send(socket, request_.data(), request_.size(), MSG_NOSIGNAL);
    if (n != static_cast<ssize_t>(request_.size())) return fail("the proxy takes no request");
    sent_ = request_.size();
    request_.clear();
    return Outcome::kWaiting;
}

ProxyHandshake::Outcome ProxyHandshake::read_answer(int socket) {
    std::string head(kMaxAnswer, '\0');
    const ssize_t n = ::recv(socket, head.data(), head.size(), MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Outcome::kWaiting;
    if (n < 0) return fail(fmt::format("the proxy: {}", ::strerrordesc_np(errno)));
    if (n == 0) return fail("the proxy closed the connection");
    head.resize(static_cast<size_t>(n));
    const size_t end = head.find("\r\n\r\n");
    if (end == std::string::npos) {
        if (head.size() == kMaxAnswer) return fail("the proxy's answer is too long");
        return Outcome::kWaiting;
    }
    const std::string status = status_of(head);
    if (status.empty()) return fail("the proxy does not speak HTTP/1");
    if (!status.starts_with('2')) return fail(fmt::format("the proxy answered: {}", status));
    received_ = end + 4;
    (void)::recv(socket, head.data(), received_, MSG_DONTWAIT);
    return Outcome::kOpen;
}

}  // namespace boxlite::net
