// What a Box handle refers to. The box itself is its record, its folder and its supervisor; nothing here is
// more than a way to find them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "boxlite/box.h"
#include "runtime/runtime_impl.h"
#include "runtime/secrets.h"
#include "runtime/supervisor.h"

namespace boxlite {

class BoxImpl {
  public:
    BoxImpl(std::shared_ptr<RuntimeImpl> owner, runtime::BoxConfig box_config)
        : runtime(std::move(owner)), config(std::move(box_config)), folder(runtime->home.box(config.id)) {}

    const std::shared_ptr<RuntimeImpl> runtime;
    const runtime::BoxConfig config;
    const runtime::BoxFolder folder;
    // Of the options that it was made with, for the first start.
    mutable runtime::GivenSecrets given_secrets;
};

namespace runtime {

struct CapturedMachine;

// Where a box that is launched goes on from, instead of booting.
struct GoingOn {
    const CapturedMachine* machine = nullptr;
    std::string machine_id;  // what /etc/machine-id becomes; empty: it stays
};

// What is true of a box now.
struct Observation {
    BoxRecord record;                       // as corrected
    std::optional<v1::BoxStatus> answered;  // by its supervisor
};

// Asks the supervisor, or corrects the record of a box whose supervisor is gone. kNotFound when the box is,
// also because it was one to be removed when it stops.
Result<Observation> observe(RuntimeImpl& runtime, BoxRecord record);

// Cleans up after a box's last run and records how it ended. The caller holds the change lock and the
// supervisor is gone.
void settle(RuntimeImpl& runtime, BoxRecord& record);

BoxInfo describe(const RuntimeImpl& runtime, const Observation& observation);

// A connection to the box's running supervisor; kStopped, with the way out, when there is none.
Result<Connection> running(const BoxImpl& box);

// Starts the box when it is not running, unless it is a job: its program runs when a caller asks for just
// that. Returns a connection to a box that is ready.
Result<Connection> running_or_started(const BoxImpl& box);

// Starts the supervisor of a box that has none; the guest is then still booting. Returns whether this call
// did.
Result<bool> launch_box(const BoxImpl& box, const StartOptions& options, const GoingOn& from = {});
// Waits until programs can be run. A boot that fails becomes the box's state, once its supervisor has gone;
// `failed` is called before that is waited for.
Result<void> await_box(const BoxImpl& box, const std::function<void()>& failed = {});
// Both. Returns whether this call started it.
Result<bool> start_box(const BoxImpl& box, const StartOptions& options);

// Held by whoever starts, stops or changes the box. kNotFound when it is gone.
Result<base::FileLock> lock_changes(const BoxImpl& box);
// For a supervisor that does not answer any more. The caller holds that lock.
Result<void> wait_for_supervisor_to_go(const BoxImpl& box);

// Waits for a supervisor that does not answer any more because it is ending.
Result<void> wait_for_ending(const BoxImpl& box);
Result<void> stop_box(const BoxImpl& box, const StopOptions& options);
Result<void> pause_box(const BoxImpl& box);
Result<void> resume_box(const BoxImpl& box);
// The first box of a fork that fails takes all of them along. kUnsupported when the box's engine cannot fork.
Result<std::vector<std::shared_ptr<BoxImpl>>> fork_box(const BoxImpl& parent, const ForkOptions& options);
Result<void> remove_box(RuntimeImpl& runtime, const BoxConfig& config, bool force);

// Removes folders without a record: of a creation or removal that was cut short.
void collect_stale_folders(RuntimeImpl& runtime);
// Removes bases that nothing needs any more.
void collect_unused_bases(RuntimeImpl& runtime);

}  // namespace runtime
}  // namespace boxlite
