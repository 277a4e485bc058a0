// From a running guest to a written exit record.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "jail/violation.h"
#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

using std::chrono::milliseconds;

// After the grace: syncing a full page cache to a slow disk.
constexpr milliseconds kSyncBudget{25'000};
// For clients that have yet to ask how the main process ended.
constexpr milliseconds kLingerBudget{2'000};
// For readers of its output that hold and have not seen its end.
constexpr milliseconds kReaderBudget{60'000};

constexpr size_t kMaxReasonBytes = 2000;
// Six bytes are the longest that JSON makes of one.
constexpr size_t kExitRecordBytes = 6 * kMaxReasonBytes + 1000;

std::string describe(const engine::MachineExit& exit) {
    switch (exit.kind) {
        case engine::MachineExit::Kind::kPowerOff:
            return "the guest powered itself off";
        case engine::MachineExit::Kind::kReset:
            return "the guest restarted its machine";
        case engine::MachineExit::Kind::kPanic:
            return "the guest kernel panicked";
        case engine::MachineExit::Kind::kTripleFault:
            return "the guest's processor shut down after a triple fault";
        case engine::MachineExit::Kind::kFailed:
            return "the host could not carry the machine on; the shim's log says why";
        case engine::MachineExit::Kind::kKilled:
            return fmt::format("the guest kernel was killed by signal {}", exit.signal);
    }
    return {};
}

// What helps a kernel that ended with these words; "" when nothing is known to.
std::string way_out(const std::string& last_words) {
    if (last_words.find("ptrace: Operation not permitted") == std::string::npos) return {};
    return "; the host, or the seccomp profile of the container that this is, has to allow ptrace";
}

}  // namespace

void Supervisor::stop(uint32_t grace_ms, const std::string& reason) {
    if (state_ == State::kStopping || state_ == State::kOff) return;
    base::log_info("box stopping", {{"box", spec_.box_id()}, {"reason", reason}});
    end_reason_ = reason;
    if (state_ == State::kStarting) {
        fail_boot(base::make_error(ErrorCode::kStopped, "the box was stopped while it started: {}", reason));
        return;
    }
    if (state_ == State::kPaused) {
        const auto resumed = machine_->resume();
        if (!resumed.ok())
            base::log_error("the box could not be resumed", {{"error", resumed.error().message}});
    }
    shut_down_guest(grace_ms);
}

void Supervisor::shut_down_guest(uint32_t grace_ms) {
    state_ = State::kStopping;
    v1::ShutdownRequest request;
    request.set_grace_ms(grace_ms);
    agent_->call(
        "boxlite.v1.Guest", "Shutdown", request, milliseconds(grace_ms) + kSyncBudget,
        [this](const Result<std::string_view>& answer) {
            if (!answer.ok())
                base::log_error("the guest did not shut down in order", {{"error", answer.error().message}});
            // The disk is clean, and nothing is left that the guest could do better than this.
            power_off();
        });
}

void Supervisor::main_ended(const v1::ExitStatus& status) {
    main_exit_ = status;
    for (rpc::Responder& waiter : std::exchange(main_waiters_, {})) waiter.reply(status);
    if (state_ == State::kRunning) stop_after_main();
}

void Supervisor::stop_after_main() {
    end_reason_ = "the main process has ended";
    // The rest of its output first: it goes with the machine.
    const auto shut = [this] {
        if (state_ != State::kRunning) return;
        // Nobody will see the disk of a box that goes with its process.
        if (spec_.auto_remove()) {
            state_ = State::kStopping;
            return power_off();
        }
        shut_down_guest(0);
    };
    if (output_->ended()) return shut();
    output_->on_end(shut);
}

void Supervisor::power_off() {
    machine_->kill();
}

void Supervisor::machine_ended(const engine::MachineExit& exit) {
    loop_.cancel(boot_timer_);
    if (state_ == State::kStarting && !failure_) {
        const std::string words = console_->last_lines();
        failure_ = base::make_error(ErrorCode::kEngine, "{} before the guest was up; its last words: {}{}",
                                    describe(exit), words, way_out(words));
        end_reason_ = failure_->message;
    } else if ((state_ == State::kRunning || state_ == State::kPaused) && end_reason_.empty()) {
        end_reason_ = fmt::format("{}; its last words: {}", describe(exit), console_->last_lines());
    }
    state_ = State::kOff;
    if (agent_) agent_->close();
    const auto flushed = disk_->disk().flush();
    if (!flushed.ok()) base::log_error("the disk could not be flushed", {{"error", flushed.error().message}});
    output_->end();
    answer_waiters();
    write_exit_record();
    for (rpc::Responder& waiter : std::exchange(stop_waiters_, {})) waiter.reply(v1::Empty());
    finish();
}

// The end of this process, once nobody has a use for it any more.
void Supervisor::finish() {
    const bool unsent = std::any_of(clients_.begin(), clients_.end(),
                                    [](const Connection& client) { return client->unsent_bytes() > 0; });
    // Whoever started a short-lived program in the foreground may not have come to its output yet.
    const bool unread = main_exit_ && !spec_.detach() && !output_->read_to_end();
    if (users_.empty() && !unsent && !unread) return leave();
    if (!linger_timer_)
        linger_timer_ = loop_.after(output_->all_seen() ? kLingerBudget : kReaderBudget, [this] { leave(); });
}

void Supervisor::leave() {
    if (!network_ || network_->stopped()) return loop_.stop();
    network_->stop([this] { loop_.stop(); });
}

Result<void> Supervisor::reserve_exit_record() {
    const std::string path = spec_.box_dir() + "/exit.new";
    exit_record_ = TRY(base::open_file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600));
    TRY_CONTEXT(fill_exit_record({}), path);
    jail::report_violations(exit_record_.get());
    return {};
}

// Blanks after the text: JSON does not mind them.
Result<void> Supervisor::fill_exit_record(std::string text) const {
    text.resize(kExitRecordBytes, ' ');
    return base::pwrite_all(exit_record_.get(), base::as_bytes(text), 0);
}

void Supervisor::write_exit_record() const {
    nlohmann::json record = {{"code", main_exit_ ? main_exit_->code() : 0},
                             {"signal", main_exit_ ? main_exit_->signal() : 0},
                             {"reason", end_reason_.substr(0, kMaxReasonBytes)},
                             {"failed", failure_.has_value()},
                             {"finished_at", base::realtime_ns()}};
    const std::string text = record.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    const auto written = [&]() -> Result<void> {
        TRY(fill_exit_record(text));
        if (::fsync(exit_record_.get()) < 0) return base::errno_error(ErrorCode::kStorage, "sync it");
        const std::string& dir = spec_.box_dir();
        if (::rename((dir + "/exit.new").c_str(), (dir + "/exit.json").c_str()) < 0)
            return base::errno_error(ErrorCode::kStorage, "rename it into place");
        return base::sync_directory(dir);
    }();
    if (!written.ok())
        base::log_error("the exit record could not be written", {{"error", written.error().message}});
    base::log_info("box off", {{"box", spec_.box_id()}, {"reason", end_reason_}});
}

}  // namespace boxlite::shim
