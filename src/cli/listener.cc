#include "cli/listener.h"

#include <sys/stat.h>

#include <charconv>

#include "net/address.h"

namespace boxlite::cli {

namespace {

Error bad_address(const std::string& text) {
    return base::make_error(ErrorCode::kInvalidArgument,
                            "invalid value '{}' for --listen: PORT, ADDRESS:PORT or unix:/PATH is needed",
                            text);
}

Result<net::Endpoint> parse_endpoint(const std::string& text) {
    net::Endpoint endpoint;
    const size_t colon = text.rfind(':');
    const std::string number = colon == std::string::npos ? text : text.substr(colon + 1);
    const char* last = number.data() + number.size();
    const auto [end, error] = std::from_chars(number.data(), last, endpoint.port);
    if (error != std::errc() || end != last) return bad_address(text);
    std::string host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    const auto address = net::IpAddress::parse(host);
    if (!address) return bad_address(text);
    endpoint.address = *address;
    return endpoint;
}

Result<Listener> listen_unix(const std::string& path) {
    const mode_t before = ::umask(0177);
    auto socket = base::listen_unix(path);
    ::umask(before);
    if (!socket.ok() && ::access(path.c_str(), F_OK) == 0)
        return base::make_error(ErrorCode::kAlreadyExists,
                                "cannot listen on unix:{}: it exists already; remove it if nobody uses it",
                                path);
    return Listener{TRY(std::move(socket)), "unix:" + path, path};
}

}  // namespace

Result<Listener> listen_on(const std::string& text) {
    if (text.starts_with("unix:")) {
        if (!text.starts_with("unix:/")) return bad_address(text);
        return listen_unix(text.substr(5));
    }
    net::Endpoint endpoint = TRY(parse_endpoint(text));
    net::SocketAddress address(endpoint);
    base::Fd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) return base::errno_error(ErrorCode::kNetwork, "make a socket for {}", text);
    const int on = 1;
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.get(), address.get(), address.length) < 0 || ::listen(socket.get(), 128) < 0) {
        const Error error = base::errno_error(ErrorCode::kNetwork, "listen on {}", endpoint.to_string());
        return Error{error.code, error.message + "; with port 0 the host chooses a free one"};
    }
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &size) == 0)
        endpoint = net::endpoint_of(reinterpret_cast<sockaddr*>(&bound)).value_or(endpoint);
    return Listener{std::move(socket), endpoint.to_string(), {}};
}

}  // namespace boxlite::cli
