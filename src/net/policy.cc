#include "net/policy.h"

#include <algorithm>
#include <charconv>

#include "net/layout.h"

namespace boxlite::net {

namespace {

constexpr const char* kDefaultRule = "default: the public internet";
constexpr const char* kNotListed = "not in the allow-list";

bool parse_port(std::string_view text, uint16_t& port) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    return error == std::errc() && end == text.data() + text.size() && port != 0;
}

Error bad_rule(const std::string& text, std::string_view why) {
    return base::make_error(
        ErrorCode::kInvalidArgument,
        "'{}' is no network rule: {}; a host, *.domain, an address or a block is needed, with :PORT or "
        ":FROM-TO and /udp behind",
        text, why);
}

Verdict refused(std::string rule) {
    return {false, std::move(rule), {}, false};
}

Verdict allowed(std::string rule) {
    return {true, std::move(rule), {}, false};
}

std::string closed(const char* use) {
    return fmt::format("default: {} addresses are closed", use);
}

}  // namespace

const char* protocol_name(Protocol protocol) {
    constexpr const char* kNames[] = {"tcp", "udp", "icmp"};
    return kNames[static_cast<size_t>(protocol)];
}

std::optional<std::string> normalize_host(std::string_view text) {
    if (text.ends_with('.')) text.remove_suffix(1);
    if (text.empty() || text.size() > 253) return std::nullopt;
    std::string host;
    size_t label = 0;
    bool number = true;
    for (const char raw : text) {
        const char c = raw >= 'A' && raw <= 'Z' ? static_cast<char>(raw - 'A' + 'a') : raw;
        const bool digit = c >= '0' && c <= '9';
        if (c == '.') {
            if (label == 0 || host.back() == '-') return std::nullopt;
            label = 0;
            number = true;
        } else if (digit || (c >= 'a' && c <= 'z') || c == '-' || c == '_') {
            if (++label > 63 || (label == 1 && c == '-')) return std::nullopt;
            number = number && digit;
        } else {
            return std::nullopt;
        }
        host += c;
    }
    // What other programs take for an address (RFC 1123, 2.1), also in hexadecimal.
    const std::string last = host.substr(host.rfind('.') + 1);
    if (label == 0 || number || host.back() == '-' || last.starts_with("0x")) return std::nullopt;
    return host;
}

bool Policy::Rule::matches_name(std::string_view name) const {
    if (everything) return true;
    if (host.starts_with('.')) return name.size() > host.size() && name.ends_with(host);
    return !host.empty() && name == host;
}

bool Policy::Rule::matches_address(const IpAddress& address) const {
    if (!prefix) return false;
    if (prefix->contains(address)) return true;
    const auto inside = address.embedded();
    return inside && prefix->contains(*inside);
}

bool Policy::Rule::matches(Protocol used, uint16_t port) const {
    if (protocol && *protocol != used)
        return used == Protocol::kIcmp && protocol == Protocol::kTcp && all_ports();
    return used == Protocol::kIcmp ? all_ports() : port >= first_port && port <= last_port;
}

Result<void> Policy::parse_host(std::string_view host, Rule& rule) {
    rule.prefix = Prefix::parse(host);
    if (rule.prefix) return {};
    if (host == "*") {
        rule.everything = true;
        return {};
    }
    const bool below = host.starts_with("*.");
    const auto name = normalize_host(below ? host.substr(2) : host);
    if (!name) return bad_rule(rule.text, fmt::format("'{}' is neither a host name nor an address", host));
    rule.host = (below ? "." : "") + *name;
    return {};
}

Result<Policy::Rule> Policy::parse_rule(const std::string& text, bool allow) {
    Rule rule;
    rule.text = text;
    std::string_view rest = text;
    if (rest.ends_with("/udp") || rest.ends_with("/tcp")) {
        rule.protocol = rest.ends_with("/udp") ? Protocol::kUdp : Protocol::kTcp;
        rest.remove_suffix(4);
    } else if (allow) {
        rule.protocol = Protocol::kTcp;
    }
    std::string_view ports;
    if (rest.starts_with('[')) {
        const size_t end = rest.find(']');
        if (end == std::string_view::npos) return bad_rule(text, "the bracket is not closed");
        ports = rest.substr(end + 1);
        rest = rest.substr(1, end - 1);
        if (!ports.empty() && !ports.starts_with(':'))
            return bad_rule(text, "there is more behind the bracket");
        if (!ports.empty()) ports.remove_prefix(1);
        if (ports.empty() && text.find("]:") != std::string::npos) return bad_rule(text, "a port is needed");
    } else if (const size_t colon = rest.find(':');
               colon != std::string_view::npos && colon == rest.rfind(':')) {
        ports = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
        if (ports.empty()) return bad_rule(text, "a port is needed");
    }
    if (!ports.empty()) {
        const size_t dash = ports.find('-');
        if (!parse_port(ports.substr(0, dash), rule.first_port) ||
            !parse_port(dash == std::string_view::npos ? ports : ports.substr(dash + 1), rule.last_port) ||
            rule.first_port > rule.last_port)
            return bad_rule(text, fmt::format("'{}' is no port or range of ports", ports));
    }
    TRY(parse_host(rest, rule));
    return rule;
}

Result<Policy> Policy::parse(const Text& text) {
    Policy policy;
    policy.has_allow_ = text.allow.has_value();
    for (const std::string& rule : text.allow.value_or(std::vector<std::string>{})) {
        // The flag without a value: an empty list.
        if (rule.empty()) continue;
        policy.allow_.push_back(TRY(parse_rule(rule, true)));
        if (!policy.allow_.back().host.empty()) policy.goes_by_names_ = true;
    }
    for (const std::string& rule : text.deny) policy.deny_.push_back(TRY(parse_rule(rule, false)));
    return policy;
}

Verdict Policy::connect(Protocol protocol, const Endpoint& to, const std::vector<std::string>& names) const {
    const auto named = [&](const Rule& rule) {
        return std::find_if(names.begin(), names.end(),
                            [&](const std::string& name) { return rule.matches_name(name); });
    };
    for (const Rule& rule : deny_)
        if (rule.matches(protocol, to.port) &&
            (rule.everything || rule.matches_address(to.address) || named(rule) != names.end()))
            return refused("--deny-net " + rule.text);
    const char* use = special_use(to.address);
    for (const Rule& rule : allow_) {
        if (!rule.matches(protocol, to.port)) continue;
        if (rule.matches_address(to.address) && (!use || is_special(*rule.prefix)))
            return allowed("--allow-net " + rule.text);
        if (use) continue;
        if (rule.everything) return allowed("--allow-net " + rule.text);
        if (const auto name = named(rule); name != names.end())
            return {true, "--allow-net " + rule.text, *name, true};
    }
    if (use) return refused(closed(use));
    if (has_allow_) return refused(kNotListed);
    return allowed(kDefaultRule);
}

Verdict Policy::connect_host(Protocol protocol, uint16_t port) const {
    const IpAddress alias = *IpAddress::parse(kHostAlias);
    const auto about_host = [&](const Rule& rule) {
        return rule.host == kHostName ||
               (rule.prefix && rule.prefix->length == 32 && rule.prefix->contains(alias));
    };
    for (const Rule& rule : deny_)
        if (rule.matches(protocol, port) && (rule.everything || about_host(rule)))
            return refused("--deny-net " + rule.text);
    for (const Rule& rule : allow_)
        if (rule.matches(protocol, port) && about_host(rule)) return allowed("--allow-net " + rule.text);
    return refused("default: the host's own services are closed");
}

Verdict Policy::resolve(const std::string& host) const {
    for (const Rule& rule : deny_)
        if (!rule.protocol && rule.all_ports() && rule.matches_name(host))
            return refused("--deny-net " + rule.text);
    if (!has_allow_) return allowed(kDefaultRule);
    for (const Rule& rule : allow_) {
        const bool all = rule.prefix && rule.prefix->length == 0;
        if (all || rule.matches_name(host)) return allowed("--allow-net " + rule.text);
    }
    return refused(kNotListed);
}

Verdict Policy::answer(const IpAddress& address) const {
    for (const Rule& rule : deny_)
        if (!rule.protocol && rule.all_ports() && rule.matches_address(address))
            return refused("--deny-net " + rule.text);
    const char* use = special_use(address);
    if (!use) return allowed(kDefaultRule);
    for (const Rule& rule : allow_)
        if (rule.matches_address(address) && is_special(*rule.prefix))
            return allowed("--allow-net " + rule.text);
    return refused(closed(use));
}

}  // namespace boxlite::net
