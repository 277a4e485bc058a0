// The part of a network rule that is about single HTTP requests: "GET,HEAD https://api.example.com/v1/*".
// Methods are capital letters, or "*" for all. "*" in the path stands for any characters, "/" too; a query is
// not looked at. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace boxlite::net {

struct HttpRule {
    std::vector<std::string> methods;  // empty: all
    bool tls = false;
    std::string path = "/*";
    // `path` as http_path() gives it.
    bool matches(bool over_tls, std::string_view method, std::string_view path) const;
};

// What the text of such a rule consists of: the authority is what a rule about connections begins with.
struct HttpRuleText {
    HttpRule rule;
    std::string authority;  // with a port
};
// Whether a rule is one about requests.
bool is_http_rule(std::string_view text);
// Precondition: it is. On an error, what is wrong with it.
Result<HttpRuleText> parse_http_rule(std::string_view text);

// The path of a request's target (RFC 9112, 3.2), with its escapes undone. nullopt where two servers could
// take it for different ones: steps up ("..") or through ("."), escaped separators, escapes that are none.
std::optional<std::string> http_path(std::string_view target);

}  // namespace boxlite::net
