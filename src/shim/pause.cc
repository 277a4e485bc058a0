// Stopping a running box in its tracks and letting it go on.
#include "base/log.h"
#include "shim/supervisor.h"

namespace boxlite::shim {

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

}  // namespace boxlite::shim
