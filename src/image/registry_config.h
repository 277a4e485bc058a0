// How registries are reached. Plain values.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

namespace boxlite::image {

enum class Transport {
    kAuto,  // https, but http for loopback addresses
    kHttps,
    kHttp,
};

struct AuthFromDockerConfig {};  // config.json of docker login, with its credential helpers
struct AuthAnonymous {};
struct AuthBasic {
    std::string username;
    std::string password;
};
struct AuthBearer {
    std::string token;
};
using RegistryAuth = std::variant<AuthFromDockerConfig, AuthAnonymous, AuthBasic, AuthBearer>;

struct RegistryConfig {
    std::string host;  // host[:port], as in a reference
    Transport transport = Transport::kAuto;
    bool skip_verify = false;          // accept any certificate
    bool search = false;               // take part in the search for names without a registry
    std::string ca_file;               // PEM, trusted besides the system's certificates
    std::vector<std::string> mirrors;  // host[:port][/prefix], tried in order before the registry itself
    RegistryAuth auth;
};

struct RegistryOptions {
    std::vector<RegistryConfig> registries;
    // Folder with docker's config.json; "" is $DOCKER_CONFIG, else ~/.docker.
    std::string docker_config;
    std::chrono::milliseconds connect_timeout{15'000};
    std::chrono::milliseconds stall_timeout{30'000};  // without a byte
    int retries = 4;  // after the first attempt; progress on a blob starts the count anew
    std::chrono::milliseconds retry_delay{250};  // doubled each time, up to 8 s, with jitter
};

}  // namespace boxlite::image
