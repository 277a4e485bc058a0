// What tests of conversations share: a guard for api.example.com with a secret, and what it refused.
#pragma once

#include <string>
#include <vector>

#include "net/tls/guard.h"

namespace boxlite::net::tls::testing {

inline constexpr const char* kHost = "api.example.com";
inline constexpr const char* kValue = "s3cret-value";
inline constexpr const char* kPlaceholder = "<BOXLITE_SECRET:TOKEN>";
inline constexpr const char* kOtherPlaceholder = "<BOXLITE_SECRET:OTHER>";
inline constexpr const char* kQueryPlaceholder = "<BOXLITE_SECRET:QUERY>";

struct Setting {
    Policy policy;
    SecretBook book{{{"TOKEN", kPlaceholder, {kHost}, false},
                     {"OTHER", kOtherPlaceholder, {"other.example.org"}, false},
                     {"QUERY", kQueryPlaceholder, {"*.example.com"}, true}}};
    std::vector<std::string> refused;

    Setting() { (void)book.set({{"TOKEN", kValue}, {"OTHER", "other-value"}, {"QUERY", "a&b c"}}); }
    Guard guard(const std::string& host = kHost) {
        return {.host = host,
                .port = 443,
                .by_request = false,
                .policy = policy,
                .secrets = book,
                .refused = [this](const std::string& rule) { refused.push_back(rule); }};
    }
};

}  // namespace boxlite::net::tls::testing
