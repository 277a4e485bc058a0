#include "jail/confine.h"

#include <fcntl.h>
#include <sys/prctl.h>

#include <filesystem>
#include <system_error>

#include "jail/landlock.h"
#include "jail/seccomp.h"

namespace boxlite::jail {

namespace {

size_t thread_count() {
    std::error_code failed;
    size_t count = 0;
    for (auto it = std::filesystem::directory_iterator("/proc/self/task", failed); !failed && it != end(it);
         it.increment(failed))
        ++count;
    return count;
}

Result<base::Fd> make_ruleset(const ShimConfinement& confinement) {
    std::vector<base::Fd> open;
    std::vector<LandlockRule> rules;
    const auto add = [&](const std::vector<std::string>& paths, LandlockAccess access) -> Result<void> {
        for (const std::string& path : paths) {
            open.push_back(TRY(base::open_file(path, O_PATH)));
            rules.push_back({open.back().get(), access});
        }
        return {};
    };
    TRY(add(confinement.read_write, LandlockAccess::kReadWrite));
    TRY(add(confinement.read_only, LandlockAccess::kRead));
    TRY(add(confinement.cgroups, LandlockAccess::kReadWrite));
    for (const std::string& cgroup : confinement.cgroups)
        TRY(add({std::filesystem::path(cgroup).parent_path().string()}, LandlockAccess::kRemoveFolders));
    // Its children are outside of its domain; seccomp leaves it signals to those whose pidfd it holds.
    return make_landlock_ruleset(rules, LandlockScope::kSignals);
}

}  // namespace

Result<JailReport> confine_shim(const ShimConfinement& confinement) {
    JailReport report;
    const auto note = [&](const char* what, int result) {
        if (result == 0)
            report.applied.emplace_back(what);
        else
            report.missing.push_back({what, std::error_code(errno, std::generic_category()).message()});
    };
    // Before anything is changed, so that an error changes nothing.
    const SeccompProgram policy = TRY(shim_policy(confinement.stoppable_group));
    auto ruleset = make_ruleset(confinement);
    if (!ruleset.ok() && ruleset.error().code == ErrorCode::kNotFound) return std::move(ruleset).error();
    if (!ruleset.ok())
        report.missing.push_back({"Landlock", ruleset.error().message});
    else if (const size_t threads = thread_count(); threads > 1)
        report.missing.push_back({"Landlock", fmt::format("{} threads run already", threads - 1)});
    if (confinement.strict && !report.missing.empty())
        return base::make_error(ErrorCode::kUnsupported, "cannot confine the supervisor: {}: {}",
                                report.missing.front().what, report.missing.front().why);

    note("no new privileges", ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    note("not dumpable", ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    if (ruleset.ok()) note("Landlock", landlock_restrict_self(ruleset->get()));
    if (auto applied = apply_seccomp(policy); applied.ok())
        report.applied.emplace_back("seccomp");
    else
        report.missing.push_back({"seccomp", applied.error().message});
    if (confinement.strict && !report.missing.empty())
        return base::make_error(ErrorCode::kUnsupported, "cannot confine the supervisor: {}: {}",
                                report.missing.front().what, report.missing.front().why);
    return report;
}

}  // namespace boxlite::jail
