// Which connections a box may make. The rules:
//   example.com  *.example.com  192.0.2.1  2001:db8::1  10.0.0.0/8  *
//   GET,HEAD https://api.example.com/v1/*
// each with :PORT or :FROM-TO and with /udp behind; an IPv6 address with a port is put into brackets. A rule
// is about TCP unless it says /udp; a deny rule without either is about everything. "*.example.com" is what
// is below example.com, and not that itself; "*" is the public internet. A rule with methods and a URL is
// about single HTTP requests (see http_rule.h): it allows the connections that they need, and these are then
// looked into.
//
// Without an allow-list, the public internet is open. Addresses of special use (loopback, private,
// link-local, metadata, multicast, …) are closed until a rule names the address itself or a block of that
// use; no name and no larger block opens them. Deny rules go before everything.
// Thread safety: immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/address.h"
#include "net/http_rule.h"

namespace boxlite::net {

enum class Protocol { kTcp, kUdp, kIcmp };
const char* protocol_name(Protocol protocol);

struct Verdict {
    bool allowed = false;
    std::string rule;         // that decided, as a user reads it
    std::string name;         // of the destination, "" where it is not known
    bool by_name = false;     // the rule is about the name, not about the address
    bool by_request = false;  // only requests on it that a rule allows
    bool is_public = false;   // it is open with all of the public internet, not by a rule of its own
};

// An HTTP request that is about to go out.
struct Request {
    bool tls = false;
    std::string_view host;  // that it asks for: normalized
    uint16_t port = 0;
    std::string_view method, target;
    bool by_request = false;  // of its connection's verdict
};

// Lower case and without the final dot; nullopt unless letters, digits, '-' and '_' in labels of 1 to 63, at
// most 253 in all, and no number as the last label.
std::optional<std::string> normalize_host(std::string_view text);

class Policy {
  public:
    struct Text {
        std::optional<std::vector<std::string>> allow;  // nullopt: no list; empty: nothing
        std::vector<std::string> deny;
    };
    // kInvalidArgument names the rule that is wrong.
    static Result<Policy> parse(const Text& text);

    // `names` are those that the box got the address for. For an ICMP echo the port does not matter.
    Verdict connect(Protocol protocol, const Endpoint& to, const std::vector<std::string>& names) const;
    // To a host that only its name is known of.
    Verdict connect_name(Protocol protocol, uint16_t port, const std::string& name) const;
    // To another box of its private network, where only rules that deny count. One that is about requests
    // denies all of the connection: nothing there is looked into.
    Verdict connect_peer(Protocol protocol, const Endpoint& to, const std::vector<std::string>& names) const;
    // To the host's own loopback, under the name of kHostName.
    Verdict connect_host(Protocol protocol, uint16_t port) const;
    // Whether the box may learn what is known of a name. `host` is normalized.
    Verdict resolve(const std::string& host) const;
    // Whether the box may learn that a name it may resolve has this address.
    Verdict answer(const IpAddress& address) const;

    // Whether a request may go out, on a connection that may.
    Verdict request(const Request& request) const;
    // Whether there are rules about requests to there. `tls`: of those over TLS; else of those without.
    bool looks_at(std::string_view host, uint16_t port, bool tls) const;
    // Whether there are any rules about requests, and any about those over TLS.
    bool has_http_rules() const { return has_http_; }
    bool has_https_rules() const { return has_https_; }

    // Whether connections are let through by their names, which are then to be held against what the
    // connection itself says.
    bool goes_by_names() const { return goes_by_names_; }

  private:
    Verdict decide(Protocol protocol, uint16_t port, const IpAddress* address,
                   const std::vector<std::string>& names) const;

    struct Rule {
        std::string text;
        std::string host;  // "" for an address; with the dot in front when it is for what is below
        bool everything = false;
        std::optional<Prefix> prefix;
        uint16_t first_port = 0;
        uint16_t last_port = 65535;
        std::optional<Protocol> protocol;
        std::optional<HttpRule> http;

        bool all_ports() const { return first_port == 0 && last_port == 65535; }
        bool matches_name(std::string_view name) const;
        bool matches_address(const IpAddress& address) const;
        bool matches(Protocol used, uint16_t port) const;
        // `address`: nullptr where it is not known.
        bool matches_place(const IpAddress* address, const std::vector<std::string>& names) const;
        // Of a rule about requests: whether nothing of this kind may go to where they go.
        bool hinders(Protocol used, uint16_t port) const;
        // Of a rule about requests: whether it is about those to this host.
        bool is_about(std::string_view name, uint16_t port, bool tls) const;
    };
    static Result<Rule> parse_rule(const std::string& text, bool allow);
    static Result<void> parse_host(std::string_view host, Rule& rule);
    static Result<void> parse_place(std::string_view place, Rule& rule);
    Result<void> add(std::vector<Rule>& rules, const std::string& text, bool allow);

    bool has_allow_ = false;
    bool has_http_ = false;
    bool has_https_ = false;
    bool goes_by_names_ = false;
    std::vector<Rule> allow_;
    std::vector<Rule> deny_;
};

}  // namespace boxlite::net
