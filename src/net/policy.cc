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
        ":FROM-TO and /udp behind, or METHOD URL for single HTTP requests",
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
    if (is_http_rule(text)) {
        auto parsed = parse_http_rule(text);
        if (!parsed.ok()) return bad_rule(text, parsed.error().message);
        rule.protocol = Protocol::kTcp;
        rule.http = std::move(parsed->rule);
        TRY(parse_place(parsed->authority, rule));
        // TLS names a server, and an address is no name.
        if (rule.http->tls && rule.prefix) return bad_rule(text, "https needs the name of a host");
        return rule;
    }
    std::string_view rest = text;
    if (rest.ends_with("/udp") || rest.ends_with("/tcp")) {
        rule.protocol = rest.ends_with("/udp") ? Protocol::kUdp : Protocol::kTcp;
        rest.remove_suffix(4);
    } else if (allow) {
        rule.protocol = Protocol::kTcp;
    }
    TRY(parse_place(rest, rule));
    return rule;
}

// A host and its ports.
Result<void> Policy::parse_place(std::string_view place, Rule& rule) {
    std::string_view ports;
    if (place.starts_with('[')) {
        const size_t end = place.find(']');
        if (end == std::string_view::npos) return bad_rule(rule.text, "the bracket is not closed");
        ports = place.substr(end + 1);
        place = place.substr(1, end - 1);
        if (!ports.empty() && !ports.starts_with(':'))
            return bad_rule(rule.text, "there is more behind the bracket");
        if (ports == ":") return bad_rule(rule.text, "a port is needed");
        if (!ports.empty()) ports.remove_prefix(1);
    } else if (const size_t colon = place.find(':');
               colon != std::string_view::npos && colon == place.rfind(':')) {
        ports = place.substr(colon + 1);
        place = place.substr(0, colon);
        if (ports.empty()) return bad_rule(rule.text, "a port is needed");
    }
    if (!ports.empty()) {
        const size_t dash = ports.find('-');
        if (!parse_port(ports.substr(0, dash), rule.first_port) ||
            !parse_port(dash == std::string_view::npos ? ports : ports.substr(dash + 1), rule.last_port) ||
            rule.first_port > rule.last_port)
            return bad_rule(rule.text, fmt::format("'{}' is no port or range of ports", ports));
    }
    return parse_host(place, rule);
}

Result<void> Policy::add(std::vector<Rule>& rules, const std::string& text, bool allow) {
    rules.push_back(TRY(parse_rule(text, allow)));
    const Rule& rule = rules.back();
    if (allow && !rule.host.empty()) goes_by_names_ = true;
    if (rule.http) has_http_ = true;
    if (rule.http && rule.http->tls) has_https_ = true;
    return {};
}

Result<Policy> Policy::parse(const Text& text) {
    Policy policy;
    policy.has_allow_ = text.allow.has_value();
    for (const std::string& rule : text.allow.value_or(std::vector<std::string>{})) {
        // The flag without a value: an empty list.
        if (rule.empty()) continue;
        TRY(policy.add(policy.allow_, rule, true));
    }
    for (const std::string& rule : text.deny) TRY(policy.add(policy.deny_, rule, false));
    return policy;
}

Verdict Policy::connect(Protocol protocol, const Endpoint& to, const std::vector<std::string>& names) const {
    return decide(protocol, to.port, &to.address, names);
}

Verdict Policy::connect_name(Protocol protocol, uint16_t port, const std::string& name) const {
    Verdict verdict = decide(protocol, port, nullptr, {name});
    verdict.name = name;
    return verdict;
}

// `address`: nullptr where it is not known.
Verdict Policy::decide(Protocol protocol, uint16_t port, const IpAddress* address,
                       const std::vector<std::string>& names) const {
    const auto named = [&](const Rule& rule) {
        return std::find_if(names.begin(), names.end(),
                            [&](const std::string& name) { return rule.matches_name(name); });
    };
    for (const Rule& rule : deny_)
        if ((rule.http ? rule.hinders(protocol, port) : rule.matches(protocol, port)) &&
            rule.matches_place(address, names))
            return refused("--deny-net " + rule.text);
    const char* use = address ? special_use(*address) : nullptr;
    std::optional<Verdict> by_request;
    for (const Rule& rule : allow_) {
        if (!rule.matches(protocol, port) || (rule.http && by_request)) continue;
        Verdict verdict = allowed("--allow-net " + rule.text);
        verdict.by_request = rule.http.has_value();
        const auto name = named(rule);
        const bool by_address =
            address && rule.matches_address(*address) && (!use || is_special(*rule.prefix));
        verdict.is_public = !by_address && rule.everything;
        if (!by_address && !(rule.everything && !use)) {
            if (use || name == names.end()) continue;
            verdict.name = *name;
            verdict.by_name = true;
        }
        if (!verdict.by_request) return verdict;
        by_request = std::move(verdict);
    }
    if (by_request) return *by_request;
    if (use) return refused(closed(use));
    if (has_allow_) return refused(kNotListed);
    Verdict verdict = allowed(kDefaultRule);
    verdict.is_public = true;
    return verdict;
}

Verdict Policy::connect_peer(Protocol protocol, const Endpoint& to,
                             const std::vector<std::string>& names) const {
    for (const Rule& rule : deny_)
        if ((rule.matches(protocol, to.port) || rule.hinders(protocol, to.port)) &&
            rule.matches_place(&to.address, names))
            return refused("--deny-net " + rule.text);
    return allowed({});
}

Verdict Policy::connect_host(Protocol protocol, uint16_t port) const {
    const IpAddress alias = *IpAddress::parse(kHostAlias);
    const auto about_host = [&](const Rule& rule) {
        return rule.host == kHostName ||
               (rule.prefix && rule.prefix->length == 32 && rule.prefix->contains(alias));
    };
    for (const Rule& rule : deny_)
        if (!rule.http && rule.matches(protocol, port) && (rule.everything || about_host(rule)))
            return refused("--deny-net " + rule.text);
    Verdict verdict = refused("default: the host's own services are closed");
    for (const Rule& rule : allow_) {
        if (!rule.matches(protocol, port) || !about_host(rule) || (rule.http && verdict.allowed)) continue;
        verdict = allowed("--allow-net " + rule.text);
        verdict.by_request = rule.http.has_value();
        if (!rule.http) break;
    }
    return verdict;
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

bool Policy::Rule::matches_place(const IpAddress* address, const std::vector<std::string>& names) const {
    return everything || (address && matches_address(*address)) ||
           std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return matches_name(name); });
}

// HTTP/3 would go around a rule about requests.
bool Policy::Rule::hinders(Protocol used, uint16_t port) const {
    return http && http->tls && used == Protocol::kUdp && port >= first_port && port <= last_port;
}

bool Policy::Rule::is_about(std::string_view name, uint16_t port, bool tls) const {
    if (!http || http->tls != tls || !matches(Protocol::kTcp, port)) return false;
    if (!prefix) return matches_name(name);
    const auto address = IpAddress::parse(name);
    return address && matches_address(*address);
}

bool Policy::looks_at(std::string_view host, uint16_t port, bool tls) const {
    const auto about = [&](const Rule& rule) { return rule.is_about(host, port, tls); };
    return std::any_of(deny_.begin(), deny_.end(), about) || std::any_of(allow_.begin(), allow_.end(), about);
}

Verdict Policy::request(const Request& request) const {
    const auto path = http_path(request.target);
    const auto covers = [&](const Rule& rule) {
        return rule.is_about(request.host, request.port, request.tls) &&
               rule.http->matches(request.tls, request.method, *path);
    };
    if (!path && (request.by_request || looks_at(request.host, request.port, request.tls)))
        return refused("its HTTP request has a path that could be taken for another");
    for (const Rule& rule : deny_)
        if (path && covers(rule)) return refused("--deny-net " + rule.text);
    if (!request.by_request) return allowed({});
    for (const Rule& rule : allow_)
        if (covers(rule)) return allowed("--allow-net " + rule.text);
    return refused(fmt::format("{}: {} {}", kNotListed, request.method, *path));
}

}  // namespace boxlite::net
