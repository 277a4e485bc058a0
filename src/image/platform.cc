// Platforms: parsing, the host's own, and the choice from an index.
#include <algorithm>
#include <charconv>

#include "image/image.h"

namespace boxlite::image {

namespace {

struct Alias {
    std::string_view name, architecture, variant;
};
// uname's and other common names for Go's.
constexpr Alias kAliases[] = {
    {"x86_64", "amd64", ""}, {"x86-64", "amd64", ""}, {"aarch64", "arm64", ""}, {"armhf", "arm", "v7"},
    {"armv7l", "arm", "v7"}, {"armel", "arm", "v6"},  {"i386", "386", ""},      {"i686", "386", ""},
};
constexpr std::string_view kArchitectures[] = {"386",      "amd64",   "arm",     "arm64", "loong64",
                                               "mips64le", "ppc64le", "riscv64", "s390x"};

// The level that a missing variant stands for.
int default_level(std::string_view architecture) {
    if (architecture == "amd64") return 1;
    if (architecture == "arm") return 7;
    if (architecture == "arm64") return 8;
    return 0;
}

// "v8" is 8; -1 for what is not understood.
int level_of(const Platform& platform) {
    std::string_view text = platform.variant;
    if (text.empty()) return default_level(platform.architecture);
    if (text.starts_with('v')) text.remove_prefix(1);
    int level = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), level);
    return error == std::errc() && end == text.data() + text.size() ? level : -1;
}

// An image for a lower level of the same architecture runs too.
bool runs_on(const Platform& image, const Platform& wanted) {
    if (image.os != wanted.os || image.architecture != wanted.architecture) return false;
    const int level = level_of(image);
    return level >= 0 && level <= level_of(wanted);
}

}  // namespace

Platform Platform::host() {
#if defined(__x86_64__)
    return {"linux", "amd64", ""};
#elif defined(__aarch64__)
    return {"linux", "arm64", ""};
#else
#error "no guest kernel for this architecture"
#endif
}

std::string Platform::to_string() const {
    std::string text =
        fmt::format("{}/{}", os.empty() ? "unknown" : os, architecture.empty() ? "unknown" : architecture);
    if (!variant.empty()) text += "/" + variant;
    return text;
}

Result<Platform> Platform::parse(std::string_view text) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == '/')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    Platform platform{"linux", "", ""};
    if (parts.size() > 1) {
        platform.os = parts[0];
        parts.erase(parts.begin());
    }
    platform.architecture = parts[0];
    if (parts.size() > 1) platform.variant = parts[1];
    for (const Alias& alias : kAliases) {
        if (alias.name != platform.architecture) continue;
        platform.architecture = alias.architecture;
        if (platform.variant.empty()) platform.variant = alias.variant;
        break;
    }
    const bool known = std::find(std::begin(kArchitectures), std::end(kArchitectures),
                                 platform.architecture) != std::end(kArchitectures);
    if (parts.size() > 2 || platform.os != "linux" || !known || level_of(platform) < 0)
        return base::make_error(
            ErrorCode::kInvalidArgument,
            "'{}' is not a platform: linux/<architecture>[/v<level>] is wanted, with one of {}", text,
            fmt::join(kArchitectures, ", "));
    return platform;
}

bool Platform::accepts(const Platform& image) const {
    // Builders of tiny images leave these out.
    if (image.os.empty() && image.architecture.empty()) return true;
    return runs_on(image, *this);
}

Result<std::vector<Descriptor>> select_platform(const Index& index, const Platform& wanted) {
    std::vector<Descriptor> fitting;
    std::vector<std::string> offered;
    for (const Descriptor& entry : index.manifests) {
        if (!entry.platform) continue;
        offered.push_back(entry.platform->to_string());
        if (runs_on(*entry.platform, wanted)) fitting.push_back(entry);
    }
    std::stable_sort(fitting.begin(), fitting.end(), [](const Descriptor& a, const Descriptor& b) {
        return level_of(*a.platform) > level_of(*b.platform);
    });
    // Entries that do not say: only when nothing else can be meant.
    if (fitting.empty() && offered.empty() && index.manifests.size() == 1) fitting = index.manifests;
    if (fitting.empty())
        return base::make_error(
            ErrorCode::kNotFound, "there is no image for {}; there is: {}", wanted.to_string(),
            offered.empty() ? "nothing with a platform" : fmt::format("{}", fmt::join(offered, ", ")));
    return fitting;
}

}  // namespace boxlite::image
