#include "agent/capability.h"

#include <sys/prctl.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/capability_names.h"

namespace boxlite::agent {

namespace {

constexpr CapabilitySet bit(int capability) {
    return CapabilitySet{1} << capability;
}

std::optional<CapabilitySet> by_name(std::string_view text) {
    std::string name(text);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (name == "ALL") return kAllCapabilities;
    if (name.starts_with("CAP_")) name.erase(0, 4);
    const auto it = std::find(base::kCapabilityNames.begin(), base::kCapabilityNames.end(), name);
    if (it == base::kCapabilityNames.end()) return std::nullopt;
    return bit(static_cast<int>(it - base::kCapabilityNames.begin()));
}

struct Named {
    bool all = false;
    CapabilitySet single = 0;
};

Result<Named> read_names(const std::vector<std::string>& names) {
    Named result;
    for (const std::string& name : names) {
        const auto set = by_name(name);
        if (!set)
            return base::make_error(ErrorCode::kInvalidArgument,
                                    "there is no capability '{}' (see capabilities(7))", name);
        if (*set == kAllCapabilities)
            result.all = true;
        else
            result.single |= *set;
    }
    return result;
}

}  // namespace

const CapabilitySet kDefaultCapabilities =
    bit(CAP_CHOWN) | bit(CAP_DAC_OVERRIDE) | bit(CAP_FSETID) | bit(CAP_FOWNER) | bit(CAP_MKNOD) |
    bit(CAP_NET_RAW) | bit(CAP_SETGID) | bit(CAP_SETUID) | bit(CAP_SETFCAP) | bit(CAP_SETPCAP) |
    bit(CAP_NET_BIND_SERVICE) | bit(CAP_SYS_CHROOT) | bit(CAP_KILL) | bit(CAP_AUDIT_WRITE);

Result<CapabilitySet> capability_set(CapabilitySet base, const std::vector<std::string>& add,
                                     const std::vector<std::string>& drop) {
    const Named added = TRY(read_names(add));
    const Named dropped = TRY(read_names(drop));
    CapabilitySet set = base;
    if (added.all) set = kAllCapabilities;
    if (dropped.all) set = 0;
    return (set | added.single) & ~dropped.single;
}

Result<void> limit_bounding_set(CapabilitySet set) {
    for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
        if (!(set & bit(capability)) && ::prctl(PR_CAPBSET_DROP, capability) < 0)
            return base::errno_error(ErrorCode::kInternal, "give up capability {}", capability);
    return {};
}

}  // namespace boxlite::agent
