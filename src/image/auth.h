// Authentication to registries: HTTP basic, and bearer tokens as in the distribution project's token
// specification (also its OAuth2 form for identity tokens).
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "image/credentials.h"
#include "image/http.h"
#include "image/registry_config.h"

namespace boxlite::image {

// One challenge of a WWW-Authenticate header (RFC 9110, 11.6.1), names in lower case.
struct Challenge {
    std::string scheme;
    std::map<std::string, std::string> parameters;
};
// Every challenge of the header; what is malformed ends the list.
std::vector<Challenge> parse_challenges(std::string_view header);

// A repository that is asked for, and how its registry is reached.
struct AuthTarget {
    std::string registry;  // as credentials are filed: "docker.io"
    std::string repository;
    bool https = true;
    const RegistryConfig& config;
};

// Remembers what each repository's registry accepted. Thread safe.
class Authenticator {
  public:
    // Both must outlive it.
    Authenticator(HttpClient& http, const RegistryOptions& options) : http_(http), options_(options) {}

    // The Authorization to start with; "" to ask without.
    std::string known(const AuthTarget& target);
    // The Authorization that answers a 401 with this WWW-Authenticate, when `rejected` was sent. kImage when
    // there is nothing (more) to offer.
    Result<std::string> answer(const AuthTarget& target, const std::string& www_authenticate,
                               const std::string& rejected, const std::stop_token& stop);

  private:
    struct Known {
        std::string authorization;
        std::chrono::steady_clock::time_point expires;
    };
    Result<std::optional<Credentials>> credentials_for(const AuthTarget& target) const;
    Result<Known> fetch_token(const AuthTarget& target, const Challenge& challenge,
                              const std::optional<Credentials>& credentials, const std::stop_token& stop);
    HttpOutcome ask(HttpRequest request, const std::stop_token& stop);

    HttpClient& http_;
    const RegistryOptions& options_;
    std::mutex mutex_;
    std::map<std::string, Known> known_;  // by registry/repository
};

}  // namespace boxlite::image
