#include "runtime/engine_choice.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "runtime/supervisor.h"

namespace boxlite::runtime {

namespace {

constexpr const char* kKvm = "/dev/kvm";
// Of the probing process. The probe itself ends after 50 ms; a KVM that hangs it is of no use.
constexpr std::chrono::milliseconds kProbeBudget{3'000};

// What a probe found, and for which host.
struct Verdict {
    std::string host;    // changes with each boot, and when /dev/kvm is made anew or becomes accessible
    std::string reason;  // why KVM is of no use; empty when it is
};

Result<std::string> describe_host() {
    const std::string boot = TRY(host_boot_id());
    const base::Fd kvm(::open(kKvm, O_RDWR | O_CLOEXEC));
    if (!kvm.valid()) return fmt::format("{} {}", boot, std::strerror(errno));
    struct stat st;
    if (::fstat(kvm.get(), &st) < 0) return base::errno_error(ErrorCode::kEngine, "look at {}", kKvm);
    return fmt::format("{} {}.{}", boot, st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

std::optional<Verdict> read_verdict(const std::string& path) {
    const auto text = base::read_file(path, size_t{64} << 10);
    if (!text.ok()) return std::nullopt;
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object() || !json.contains("host") || !json["host"].is_string() ||
        !json.contains("reason") || !json["reason"].is_string())
        return std::nullopt;
    return Verdict{json["host"], json["reason"]};
}

void write_verdict(const std::string& path, const Verdict& verdict) {
    const std::string text = nlohmann::json{{"host", verdict.host}, {"reason", verdict.reason}}.dump(
        2, ' ', false, nlohmann::json::error_handler_t::replace);
    // Without it the next start asks again.
    if (const auto written = base::write_file_atomically(path, base::as_bytes(text)); !written.ok())
        base::log_warn("the answer about KVM was not kept", {{"error", written.error().message}});
}

// In a process of its own, which a broken KVM may hang or kill.
Result<std::string> run_probe(const Assets& assets) {
    const auto ran =
        base::run_command({TRY(assets.supervisor()), "--probe-kvm"}, {}, size_t{64} << 10, kProbeBudget);
    if (!ran.ok()) return ran.error().message;
    const auto greeting = parse_greeting(ran->out.substr(0, ran->out.find('\n')));
    if (!greeting.ok()) return greeting.error().message;
    const auto kernel = assets.kvm_kernel();
    return kernel.ok() ? std::string() : kernel.error().message;
}

Result<Verdict> probe(const RuntimeImpl& runtime) {
    const std::string path = runtime.home.cache() + "/kvm-probe.json";
    Verdict verdict{TRY(describe_host()), {}};
    if (const auto known = read_verdict(path); known && known->host == verdict.host) return *known;
    verdict.reason = TRY(run_probe(runtime.assets));
    write_verdict(path, verdict);
    base::log_info("KVM was tried", {{"outcome", verdict.reason.empty() ? "usable" : verdict.reason}});
    if (!verdict.reason.empty() && runtime.notice)
        runtime.notice(fmt::format("boxes run on the uml engine, in software: {}", verdict.reason));
    return verdict;
}

}  // namespace

Result<EngineChoice> choose_engine(const RuntimeImpl& runtime, Engine engine, Isolation isolation) {
    const bool hardware = engine == Engine::kKvm || isolation == Isolation::kHardware;
    const bool software = engine == Engine::kUml || isolation == Isolation::kSoftware;
    if (hardware && software)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "the {} engine does not give {} isolation; leave one of the two out",
                                engine == Engine::kKvm ? "kvm" : "uml",
                                isolation == Isolation::kHardware ? "hardware" : "software");
    if (software) return EngineChoice{"uml", "software", {}};
    const Verdict verdict = TRY(probe(runtime));
    if (verdict.reason.empty()) return EngineChoice{"kvm", "hardware", {}};
    if (hardware)
        return base::make_error(ErrorCode::kUnsupportedEngine,
                                "this host cannot give the hardware isolation that was asked for: {}",
                                verdict.reason);
    return EngineChoice{"uml", "software", verdict.reason};
}

}  // namespace boxlite::runtime
