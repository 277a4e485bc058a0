#include "runtime/ports.h"

#include <charconv>
#include <optional>

#include "net/address.h"

namespace boxlite::runtime {

namespace {

struct Range {
    uint32_t first = 0;
    uint32_t last = 0;
};

std::optional<uint32_t> number(std::string_view text) {
    uint16_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<Range> range(std::string_view text) {
    const size_t dash = text.find('-');
    const auto first = number(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
    if (!first || !last || *first > *last) return std::nullopt;
    return Range{*first, *last};
}

}  // namespace

Result<std::vector<PortMapping>> parse_ports(std::string_view text) {
    const auto bad = [&](std::string_view why) {
        return base::make_error(ErrorCode::kInvalidArgument,
                                "'{}' is no published port: {}; [ADDRESS:][HOST]:BOX[/tcp|udp] is needed",
                                text, why);
    };
    PortMapping port;
    std::string_view rest = text;
    if (rest.ends_with("/tcp") || rest.ends_with("/udp")) {
        port.udp = rest.ends_with("/udp");
        rest.remove_suffix(4);
    } else if (rest.find('/') != std::string_view::npos) {
        return bad("the protocol is neither tcp nor udp");
    }
    const size_t box_at = rest.rfind(':');
    const auto box = range(box_at == std::string_view::npos ? rest : rest.substr(box_at + 1));
    if (!box || box->first == 0)
        return bad("the box's port is no number from 1 to 65535, nor a range of them");
    std::string_view host = box_at == std::string_view::npos ? "" : rest.substr(0, box_at);
    if (const size_t address_at = host.rfind(':'); address_at != std::string_view::npos) {
        std::string_view address = host.substr(0, address_at);
        if (address.starts_with('[') && address.ends_with(']'))
            address = address.substr(1, address.size() - 2);
        const auto parsed = net::IpAddress::parse(address);
        if (!parsed) return bad(fmt::format("'{}' is no address", address));
        port.host_address = parsed->to_string();
        host = host.substr(address_at + 1);
    }
    const auto outside = host.empty() ? Range{} : range(host);
    if (!outside) return bad("the host's port is no number up to 65535, nor a range of them");
    const bool chosen = outside->last == 0;
    if (!chosen && (outside->first == 0 || outside->last - outside->first != box->last - box->first))
        return bad("the two ranges differ in length");
    std::vector<PortMapping> ports;
    for (uint32_t i = 0; i <= box->last - box->first; ++i) {
        port.host_port = chosen ? 0 : static_cast<uint16_t>(outside->first + i);
        port.box_port = static_cast<uint16_t>(box->first + i);
        ports.push_back(port);
    }
    return ports;
}

std::string to_text(const PortMapping& port) {
    const bool v6 = port.host_address.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}:{}/{}", v6 ? "[" : "", port.host_address, v6 ? "]" : "", port.host_port,
                       port.box_port, port.udp ? "udp" : "tcp");
}

}  // namespace boxlite::runtime
