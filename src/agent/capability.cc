#include "agent/capability.h"

#include <linux/capability.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace boxlite::agent {

namespace {

// In the order of their numbers.
constexpr std::array<std::string_view, CAP_LAST_CAP + 1> kNames = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
};

constexpr CapabilitySet bit(int capability) {
    return CapabilitySet{1} << capability;
}

std::optional<CapabilitySet> by_name(std::string_view text) {
    std::string name(text);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
    if (name == "ALL") return kAllCapabilities;
    if (name.starts_with("CAP_")) name.erase(0, 4);
    const auto it = std::find(kNames.begin(), kNames.end(), name);
    if (it == kNames.end()) return std::nullopt;
    return bit(static_cast<int>(it - kNames.begin()));
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

}  // namespace boxlite::agent
