#include "jail/landlock.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

namespace boxlite::jail {

namespace {

// The kernel's structures and numbers, ours because build hosts have older headers than running ones.
struct RulesetAttributes {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;  // version 4
    uint64_t scoped;              // version 6
};
struct [[gnu::packed]] PathBeneath {
    uint64_t allowed_access;
    int32_t parent_fd;
};
constexpr uint32_t kCreateVersion = 1;
constexpr int kRulePathBeneath = 1;

constexpr uint64_t kFsExecute = 1 << 0;
constexpr uint64_t kFsWriteFile = 1 << 1;
constexpr uint64_t kFsReadFile = 1 << 2;
constexpr uint64_t kFsReadDir = 1 << 3;
constexpr uint64_t kFsRemoveDir = 1 << 4;
constexpr uint64_t kFsMakeChar = 1 << 6;
constexpr uint64_t kFsMakeBlock = 1 << 11;
constexpr uint64_t kFsTruncate = 1 << 14;
constexpr uint64_t kFsIoctlDevice = 1 << 15;
constexpr uint64_t kFsOfFiles = kFsExecute | kFsWriteFile | kFsReadFile | kFsTruncate | kFsIoctlDevice;
constexpr uint64_t kNetAll = 3;
constexpr uint64_t kScopeAbstractSockets = 1;
constexpr uint64_t kScopeSignals = 2;

// Rights that a version knows: 13 in the first, then refer, truncate (3) and ioctl of devices (5).
uint64_t known_fs(int version) {
    const int bits = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;
    return (uint64_t{1} << bits) - 1;
}

uint64_t rights(LandlockAccess access) {
    switch (access) {
        case LandlockAccess::kExecute:
            return kFsExecute | kFsReadFile;  // execve opens it for reading
        case LandlockAccess::kRead:
            return kFsReadFile | kFsReadDir;
        case LandlockAccess::kReadWrite:
            return ~(kFsExecute | kFsMakeChar | kFsMakeBlock);
        case LandlockAccess::kRemoveFolders:
            return kFsRemoveDir;
    }
    return 0;
}

}  // namespace

int landlock_version() {
    const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kCreateVersion);
    return version < 0 ? 0 : static_cast<int>(version);
}

Result<base::Fd> make_landlock_ruleset(const std::vector<LandlockRule>& rules, LandlockScope scope) {
    const int version = landlock_version();
    if (version == 0) return base::errno_error(ErrorCode::kUnsupported, "use Landlock");
    const uint64_t scoped = kScopeAbstractSockets | (scope == LandlockScope::kSignals ? 0 : kScopeSignals);
    const RulesetAttributes attributes{known_fs(version),
                                       version >= 4 && scope != LandlockScope::kNetwork ? kNetAll : 0,
                                       version >= 6 ? scoped : 0};
    const size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    base::Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
    if (!ruleset.valid()) return base::errno_error(ErrorCode::kUnsupported, "make a Landlock ruleset");
    for (const LandlockRule& rule : rules) {
        struct stat st;
        if (::fstat(rule.fd, &st) < 0)
            return base::errno_error(ErrorCode::kInternal, "look at a file to allow");
        PathBeneath beneath{rights(rule.access) & attributes.handled_access_fs, rule.fd};
        if (!S_ISDIR(st.st_mode)) beneath.allowed_access &= kFsOfFiles;
        if (::syscall(SYS_landlock_add_rule, ruleset.get(), kRulePathBeneath, &beneath, 0) < 0)
            return base::errno_error(ErrorCode::kInternal, "add a Landlock rule");
    }
    return ruleset;
}

int landlock_restrict_self(int ruleset) {
    return static_cast<int>(::syscall(SYS_landlock_restrict_self, ruleset, 0));
}

}  // namespace boxlite::jail
