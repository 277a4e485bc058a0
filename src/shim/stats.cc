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

void Supervisor::ask_guest(std::chrono::milliseconds budget,
                           std::function<void(const Result<v1::GuestStats>&)> done) {
    agent_->call(
        "boxlite.v1.Guest", "Stats", v1::Empty(), budget,
        [done = std::move(done)](const Result<std::string_view>& answer) {
            if (!answer.ok()) return done(answer.error());
            v1::GuestStats guest;
            if (!guest.ParseFromArray(answer->data(), static_cast<int>(answer->size())))
                return done(base::make_error(ErrorCode::kRpcTransport, "the agent's answer is damaged"));
            done(guest);
        });
}

void Supervisor::stats(rpc::Responder responder) {
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    if (state_ == State::kPaused && guest_at_pause_) return answer_stats(*guest_at_pause_, held);
    if (state_ == State::kPaused)
        return held->fail(base::make_error(
            ErrorCode::kInvalidState,
            "box '{}' did not tell what it uses before it was paused; unpause it first", spec_.name()));
    if (state_ != State::kRunning || !agent_ || !agent_->open())
        return held->fail(base::make_error(ErrorCode::kStopped, "box '{}' is not running", spec_.name()));
    ask_guest(kGuestBudget, [this, held](const Result<v1::GuestStats>& guest) {
        guest.ok() ? answer_stats(*guest, held) : held->fail(guest.error());
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
