#include "agent/program.h"

namespace boxlite::agent {

namespace {

constexpr std::string_view kUsualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr size_t kMaxAccountFile = size_t{1} << 20;

template <typename Strings>
Result<std::vector<std::string>> copy_strings(const Strings& strings, const char* what) {
    std::vector<std::string> copy(strings.begin(), strings.end());
    for (const std::string& text : copy)
        if (text.find('\0') != std::string::npos)
            return base::make_error(ErrorCode::kInvalidArgument, "{} has a zero byte in it", what);
    return copy;
}

Result<User> find_user(const std::string& spec, const Root& root) {
    const std::string passwd = TRY(root.read_text("/etc/passwd", kMaxAccountFile));
    const std::string group = TRY(root.read_text("/etc/group", kMaxAccountFile));
    return resolve_user(spec, passwd, group);
}

Result<CapabilitySet> find_capabilities(const v1::ProcessSpec& spec, bool privileged) {
    return capability_set(privileged ? kAllCapabilities : kDefaultCapabilities,
                          {spec.cap_add().begin(), spec.cap_add().end()},
                          {spec.cap_drop().begin(), spec.cap_drop().end()});
}

}  // namespace

std::vector<std::string> program_candidates(std::string_view name, const std::vector<std::string>& env) {
    if (name.find('/') != std::string_view::npos) return {std::string(name)};
    std::string_view path = kUsualPath;
    for (const std::string& variable : env)
        if (variable.starts_with("PATH=")) path = std::string_view(variable).substr(5);
    std::vector<std::string> candidates;
    for (;;) {
        const size_t colon = path.find(':');
        const std::string_view folder = path.substr(0, colon);
        candidates.push_back(fmt::format("{}/{}", folder.empty() ? "." : folder, name));
        if (colon == std::string_view::npos) return candidates;
        path.remove_prefix(colon + 1);
    }
}

Result<std::unique_ptr<ChildPlan>> plan_program(const v1::ProcessSpec& spec, const Root& root,
                                                bool privileged) {
    auto plan = std::make_unique<ChildPlan>();
    plan->argv = TRY(copy_strings(spec.argv(), "an argument"));
    plan->env = TRY(copy_strings(spec.env(), "an environment variable"));
    if (plan->argv.empty() || plan->argv.front().empty())
        return base::make_error(ErrorCode::kInvalidArgument, "no program is named");
    plan->directory = spec.cwd().empty() ? "/" : spec.cwd();
    if (!plan->directory.starts_with('/') || plan->directory.find('\0') != std::string::npos)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "the working directory '{}' is not an absolute path", plan->directory);
    plan->user = TRY(find_user(spec.user(), root));
    plan->capabilities = TRY(find_capabilities(spec, privileged));
    plan->no_new_privileges = spec.no_new_privileges();
    plan->candidates = program_candidates(plan->argv.front(), plan->env);
    return plan;
}

}  // namespace boxlite::agent
