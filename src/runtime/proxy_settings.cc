#include "runtime/proxy_settings.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "base/base64.h"
#include "base/bytes.h"
#include "net/address.h"
#include "net/http_text.h"

namespace boxlite::runtime {

namespace {

// In the resolver's order.
Result<std::vector<std::string>> resolve(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
        return base::make_error(ErrorCode::kNetwork, "'{}' cannot be resolved: {}", host,
                                ::gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> holder(found, ::freeaddrinfo);
    std::vector<std::string> addresses;
    for (const addrinfo* entry = found; entry; entry = entry->ai_next)
        if (const auto address = net::IpAddress::from(entry->ai_addr))
            addresses.push_back(address->to_string());
    return addresses;
}

Result<v1::ProxyServer> server_of(const std::string& text) {
    const ProxyUrl url = TRY(parse_proxy_url(text));
    v1::ProxyServer server;
    for (const std::string& address : TRY(resolve(url.host))) server.add_addresses(address);
    server.set_port(url.port);
    server.set_authorization(url.authorization);
    return server;
}

std::string changed_case(std::string text, int (*change)(int)) {
    for (char& c : text) c = static_cast<char>(change(static_cast<unsigned char>(c)));
    return text;
}

}  // namespace

Result<ProxyUrl> parse_proxy_url(std::string_view text) {
    if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
        if (text.substr(0, scheme) != "http")
            return base::make_error(ErrorCode::kUnsupported,
                                    "a proxy of the kind '{}' is not supported, only http",
                                    text.substr(0, scheme));
        text.remove_prefix(scheme + 3);
    }
    text = text.substr(0, text.find('/'));
    ProxyUrl url;
    if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
        const std::string_view user = text.substr(0, at);
        const size_t colon = user.find(':');
        const std::string_view password = colon == std::string_view::npos ? "" : user.substr(colon + 1);
        url.authorization = "Basic " + base::base64_encode(net::percent_decode(user.substr(0, colon)) + ":" +
                                                           net::percent_decode(password));
        text.remove_prefix(at + 1);
    }
    const size_t colon = text.rfind(':');
    if (colon != std::string_view::npos && (text.front() != '[' || text[colon - 1] == ']')) {
        const char* end = text.data() + text.size();
        const auto [last, error] = std::from_chars(text.data() + colon + 1, end, url.port);
        if (error != std::errc() || last != end || url.port == 0)
            return base::make_error(ErrorCode::kInvalidArgument, "its port is no number from 1 to 65535");
        text = text.substr(0, colon);
    }
    if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
    if (text.empty()) return base::make_error(ErrorCode::kInvalidArgument, "it names no host");
    url.host = text;
    return url;
}

std::optional<v1::ProxyConfig> proxies_of(const std::function<std::string(const std::string&)>& variable,
                                          const std::function<void(const std::string&)>& notice) {
    const auto value_of = [&](const std::string& name) {
        const std::string value = variable(name);
        return value.empty() ? variable(changed_case(name, ::toupper)) : value;
    };
    std::string told;  // all_proxy is looked at twice
    const auto server = [&](const std::string& name) -> std::optional<v1::ProxyServer> {
        std::string from = name;
        std::string text = value_of(name);
        if (text.empty()) text = value_of(from = "all_proxy");
        if (text.empty()) return std::nullopt;
        auto made = server_of(text);
        if (made.ok()) return std::move(made).value();
        std::string why = fmt::format("the box goes without the proxy of {}: {}", from, made.error().message);
        if (why != told) notice(told = std::move(why));
        return std::nullopt;
    };
    v1::ProxyConfig config;
    if (auto plain = server("http_proxy")) *config.mutable_plain() = std::move(*plain);
    if (auto others = server("https_proxy")) *config.mutable_others() = std::move(*others);
    if (!config.has_plain() && !config.has_others()) return std::nullopt;
    const std::string direct = value_of("no_proxy");
    for (size_t start = 0; start < direct.size();) {
        const size_t end = std::min(direct.find_first_of(", ", start), direct.size());
        if (end > start) config.add_direct(changed_case(direct.substr(start, end - start), ::tolower));
        start = end + 1;
    }
    return config;
}

Result<base::Fd> host_proxies(const std::function<void(const std::string&)>& notice) {
    const auto config = proxies_of(
        [](const std::string& name) {
            const char* value = std::getenv(name.c_str());
            return std::string(value ? value : "");
        },
        notice ? notice : [](const std::string&) {});
    if (!config) return base::Fd();
    std::string bytes = config->SerializeAsString();
    base::Fd file = TRY(base::make_memfd("boxlite-proxies", bytes.size()));
    TRY(base::pwrite_all(file.get(), base::as_bytes(bytes), 0));
    ::explicit_bzero(bytes.data(), bytes.size());
    return file;
}

}  // namespace boxlite::runtime
