#include "jail/thread_role.h"

#include "jail/violation.h"

namespace boxlite::jail {

Result<void> ThreadRole::enter() {
    set_thread_name_in_report(threads_.c_str());
    auto applied = apply_seccomp_to_thread(program_);
    if (applied.ok()) return applied;
    if (strict_) return std::move(applied).error().with_context("missing: " + what_);
    const std::scoped_lock lock(mutex_);
    missing_ = applied.error().message;
    return {};
}

void ThreadRole::note(JailReport& report) const {
    if (missing_.empty())
        report.applied.push_back(what_);
    else
        report.missing.push_back({what_, missing_});
}

}  // namespace boxlite::jail
