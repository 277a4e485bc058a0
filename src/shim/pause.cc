// What can be done to a running machine: stopping it in its tracks, letting it go on, and making it smaller.
#include "base/log.h"
#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

// A guest that does not answer is paused all the same.
constexpr std::chrono::milliseconds kStatsBudget{1'000};

}  // namespace

Result<void> Supervisor::pause() {
    if (state_ == State::kPaused) return {};
    if (state_ != State::kRunning)
        return base::make_error(ErrorCode::kInvalidState, "box '{}' is not running and cannot be paused",
                                spec_.name());
    TRY(machine_->pause());
    state_ = State::kPaused;
    base::log_info("box paused", {{"box", spec_.box_id()}});
    return {};
}

void Supervisor::pause_on_request(rpc::Responder responder) {
    auto held = std::make_shared<rpc::Responder>(std::move(responder));
    const auto pause_now = [this, held] {
        const auto done = pause();
        done.ok() ? held->reply(v1::Empty()) : held->fail(done.error());
    };
    if (state_ != State::kRunning || !agent_ || !agent_->open()) return pause_now();
    ask_guest(kStatsBudget, [this, pause_now](const Result<v1::GuestStats>& guest) {
        if (state_ == State::kRunning) guest_at_pause_ = guest.ok() ? std::optional(*guest) : std::nullopt;
        pause_now();
    });
}

Result<void> Supervisor::resume() {
    if (state_ == State::kRunning) return {};
    if (state_ != State::kPaused)
        return base::make_error(ErrorCode::kInvalidState, "box '{}' is not paused", spec_.name());
    TRY(machine_->resume());
    state_ = State::kRunning;
    base::log_info("box resumed", {{"box", spec_.box_id()}});
    // It may have ended at the very moment of the pause.
    if (main_exit_) stop_after_main();
    return {};
}

Result<void> Supervisor::set_memory(uint32_t mib) {
    if (spec_.engine() != "kvm")
        return base::make_error(
            ErrorCode::kUnsupported,
            "the memory of a running box of the uml engine cannot be changed; stop it first");
    if (mib > spec_.memory_mib())
        return base::make_error(ErrorCode::kInvalidArgument,
                                "box '{}' was started with {} MiB and has room for no more; stop it first",
                                spec_.name(), spec_.memory_mib());
    balloon_.set_size(uint64_t{spec_.memory_mib() - mib} << 20);
    return {};
}

}  // namespace boxlite::shim
