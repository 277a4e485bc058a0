// What the box uses and has done so far: of the guest, its network's process and the device of its disk.
#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

constexpr std::chrono::milliseconds kGuestBudget{5'000};

int64_t steady_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(base::Clock::now().time_since_epoch())
        .count();
}

}  // namespace

void Supervisor::stats(rpc::Responder responder) {
    if (state_ == State::kPaused)
        return responder.fail(
            base::make_error(ErrorCode::kInvalidState, "box '{}' is paused; unpause it first", spec_.name()));
    if (state_ != State::kRunning || !agent_ || !agent_->open())
        return responder.fail(base::make_error(ErrorCode::kStopped, "box '{}' is not running", spec_.name()));
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    agent_->call("boxlite.v1.Guest", "Stats", v1::Empty(), kGuestBudget,
                 [this, held](const Result<std::string_view>& answer) {
                     if (!answer.ok()) return held->fail(answer.error());
                     v1::GuestStats guest;
                     if (!guest.ParseFromArray(answer->data(), static_cast<int>(answer->size())))
                         return held->fail({ErrorCode::kRpcTransport, "the agent's answer is damaged"});
                     answer_stats(guest, held);
                 });
}

void Supervisor::answer_stats(const v1::GuestStats& guest, const std::shared_ptr<rpc::Responder>& responder) {
    v1::BoxStats stats;
    stats.set_time_ns(steady_ns());
    *stats.mutable_guest() = guest;
    stats.set_commands_executed(commands_executed_);
    stats.set_exec_errors(exec_errors_);
    stats.set_boot_ms(boot_ms_);
    stats.set_disk_read_bytes(disk_->read_bytes());
    stats.set_disk_written_bytes(disk_->written_bytes());
    if (!network_) return responder->reply(stats);
    network_->counters([stats, responder](const std::optional<v1::NetworkCounters>& counters) {
        v1::BoxStats answer = stats;
        if (counters) *answer.mutable_network() = *counters;
        responder->reply(answer);
    });
}

}  // namespace boxlite::shim
