#include "net/resolver_config.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/file.h"

namespace boxlite::net {

namespace {

using std::chrono::milliseconds;

constexpr const char* kFile = "/etc/resolv.conf";
constexpr size_t kMaxBytes = 64 << 10;
constexpr uint16_t kPort = 53;
constexpr size_t kMaxServers = 3, kMaxSearch = 32;  // as the C library has them
constexpr unsigned kMaxTimeoutS = 30, kMaxAttempts = 5;

unsigned number_after(const std::string& option, std::string_view key, unsigned fallback, unsigned most) {
    if (!option.starts_with(key)) return fallback;
    unsigned value = fallback;
    std::from_chars(option.data() + key.size(), option.data() + option.size(), value);
    return std::clamp(value, 1u, most);
}

}  // namespace

ResolverConfig ResolverConfig::load() {
    const auto text = base::read_file(kFile, kMaxBytes);
    return parse(text.ok() ? *text : std::string());
}

ResolverConfig ResolverConfig::parse(const std::string& text) {
    ResolverConfig config;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line.substr(0, line.find_first_of("#;")));
        std::string key;
        words >> key;
        std::vector<std::string> values;
        for (std::string word; words >> word;) values.push_back(word);
        if (key == "nameserver" && !values.empty() && config.servers.size() < kMaxServers) {
            if (const auto address = IpAddress::parse(values[0])) config.servers.push_back({*address, kPort});
        } else if (key == "search" || key == "domain") {
            if (values.size() > kMaxSearch) values.resize(kMaxSearch);
            config.search = values;
        } else if (key == "options") {
            for (const std::string& option : values) {
                const auto seconds = static_cast<unsigned>(config.timeout.count() / 1000);
                config.timeout = milliseconds(1000 * number_after(option, "timeout:", seconds, kMaxTimeoutS));
                config.attempts = number_after(option, "attempts:", config.attempts, kMaxAttempts);
            }
        }
    }
    if (config.servers.empty()) config.servers.push_back({*IpAddress::parse("127.0.0.1"), kPort});
    return config;
}

}  // namespace boxlite::net
