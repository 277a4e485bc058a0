#include "net/proxy_config.h"

#include <sys/stat.h>

#include "base/bytes.h"
#include "rpc/box.pb.h"

namespace boxlite::net {

namespace {

constexpr off_t kMaxBytes = 64 << 10;

Error damaged() {
    return {ErrorCode::kInvalidArgument, "the description of the host's proxies is damaged"};
}

Result<std::optional<ProxyServer>> to_server(bool given, const v1::ProxyServer& message) {
    if (!given) return std::optional<ProxyServer>();
    ProxyServer server;
    for (const std::string& text : message.addresses()) {
        const auto address = IpAddress::parse(text);
        if (!address || message.port() == 0 || message.port() > UINT16_MAX) return damaged();
        server.addresses.push_back({*address, static_cast<uint16_t>(message.port())});
    }
    if (server.addresses.empty()) return damaged();
    server.authorization = message.authorization();
    return std::optional(std::move(server));
}

}  // namespace

Result<Proxies> read_proxies(base::Fd file) {
    struct stat info;
    if (::fstat(file.get(), &info) < 0 || info.st_size > kMaxBytes) return damaged();
    base::Bytes bytes(static_cast<size_t>(info.st_size));
    TRY(base::pread_exact(file.get(), bytes, 0));
    v1::ProxyConfig config;
    const bool parsed = config.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    ::explicit_bzero(bytes.data(), bytes.size());
    if (!parsed) return damaged();
    auto plain = TRY(to_server(config.has_plain(), config.plain()));
    auto others = TRY(to_server(config.has_others(), config.others()));
    return Proxies(std::move(plain), std::move(others), {config.direct().begin(), config.direct().end()});
}

}  // namespace boxlite::net
