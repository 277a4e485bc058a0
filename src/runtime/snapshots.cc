#include "runtime/snapshots.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runtime/fork.h"
#include "runtime/layers.h"
#include "runtime/names.h"
#include "runtime/snapshot_files.h"

namespace boxlite::runtime {

namespace {

uint64_t allocated_bytes(const std::string& path) {
    constexpr uint64_t kBlock = 512;
    struct stat st;
    return ::stat(path.c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_blocks) * kBlock : 0;
}

// What would go if the file went.
uint64_t unshared_bytes(const std::string& path) {
    struct stat st;
    return ::stat(path.c_str(), &st) == 0 && st.st_nlink == 1 ? allocated_bytes(path) : 0;
}

SnapshotInfo describe(const BoxImpl& box, const SnapshotRecord& record) {
    SnapshotInfo info;
    info.name = record.name;
    info.created_at = record.created_at;
    info.memory = record.memory;
    info.disk_bytes = allocated_bytes(layer_path(box.runtime->home, record.layer));
    for (size_t i = 0; i < record.memory_files.size(); ++i)
        info.memory_bytes += unshared_bytes(memory_path(snapshot_path(box.folder, record.name), i));
    return info;
}

// What a snapshot that is being taken consists of, while the box stays as it is.
Result<Capture> capture(const BoxImpl& box, bool memory) {
    if (auto connection = connect_supervisor(box.folder); connection.ok())
        return capture_box(box, *connection, memory);
    if (memory)
        return base::make_error(ErrorCode::kStopped, "box '{}' is not running and has no memory to keep",
                                box.config.name);
    TRY(wait_for_supervisor_to_go(box));
    Capture capture;
    capture.layer = new_layer_name();
    TRY(freeze_disk(box.runtime->home, box.folder.disk(), capture.layer));
    return capture;
}

// The machine that a snapshot keeps, if it can go on here.
Result<CapturedMachine> machine_of(const BoxImpl& box, const SnapshotRecord& record) {
    if (!record.memory)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "snapshot '{}' has no memory, only the disk; restore it without",
                                record.name);
    if (record.format < kSnapshotFormat)
        return base::make_error(
            ErrorCode::kUnsupported,
            "the memory in snapshot '{}' is of an earlier release, whose guest cannot take "
            "another network address; restore its disk alone",
            record.name);
    if (TRY(file_sha256(TRY(box.runtime->assets.kvm_kernel()))) != record.kernel)
        return base::make_error(ErrorCode::kUnsupported,
                                "snapshot '{}' was taken with another guest kernel than this BoxLite has; "
                                "its memory cannot go on, its disk can be restored without",
                                record.name);
    return read_machine(box.folder, record);
}

// Puts a new disk on the snapshot's layer into the place of `disk`, which stays beside it until `use`
// succeeds.
Result<void> replace_disk(const BoxImpl& box, const SnapshotRecord& record,
                          const std::function<Result<void>()>& use) {
    const std::string disk = box.folder.disk(), fresh = disk + ".new", before = disk + ".before";
    ::unlink(fresh.c_str());
    TRY(make_disk_on(box.runtime->home, record.layer, fresh));
    ::unlink(before.c_str());
    if (::link(disk.c_str(), before.c_str()) < 0 || ::rename(fresh.c_str(), disk.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "put the disk of a snapshot in its place");
    TRY(base::sync_directory(box.folder.path));
    auto used = use();
    if (used.ok())
        ::unlink(before.c_str());
    else if (::rename(before.c_str(), disk.c_str()) < 0)
        base::log_error("the disk of before is not back in its place", {{"box", box.config.id}});
    return used;
}

}  // namespace

Result<SnapshotInfo> create_snapshot(const BoxImpl& box, const std::string& name,
                                     const SnapshotOptions& options) {
    TRY(check_name(name));
    const base::FileLock bases = TRY(base::FileLock::acquire_shared(box.runtime->home.bases_lock()));
    const base::FileLock changes = TRY(lock_changes(box));
    if (base::path_exists(snapshot_path(box.folder, name)))
        return base::make_error(ErrorCode::kAlreadyExists,
                                "box '{}' has a snapshot '{}'; remove it first or choose another name",
                                box.config.name, name);
    const Capture captured = TRY(capture(box, options.memory));
    SnapshotRecord record;
    record.name = name;
    record.created_at = base::realtime_ns();
    record.layer = captured.layer;
    record.memory = options.memory;
    if (options.memory) {
        record.memory_bytes = uint64_t{captured.machine.memory_mib()} << 20;
        record.kernel = TRY(file_sha256(TRY(box.runtime->assets.kvm_kernel())));
    }
    TRY(write_snapshot(box.folder, record, options.memory ? &captured.machine : nullptr));
    base::log_info("snapshot taken", {{"box", box.config.id}, {"snapshot", name}});
    shorten_chain(box.runtime->home, record.layer);
    SnapshotInfo info = describe(box, record);
    info.pause = captured.pause;
    return info;
}

std::vector<SnapshotInfo> snapshots_of(const BoxImpl& box) {
    std::vector<SnapshotInfo> infos;
    for (const SnapshotRecord& record : list_snapshots(box.folder)) infos.push_back(describe(box, record));
    return infos;
}

Result<void> remove_snapshot(const BoxImpl& box, const std::string& name) {
    {
        const base::FileLock changes = TRY(lock_changes(box));
        TRY(check_name(name));
        if (!base::path_exists(snapshot_path(box.folder, name)))
            return base::make_error(ErrorCode::kNotFound, "box '{}' has no snapshot '{}'", box.config.name,
                                    name);
        TRY(remove_snapshot_files(box.folder, name));
    }
    base::log_info("snapshot removed", {{"box", box.config.id}, {"snapshot", name}});
    collect_unused_bases(*box.runtime);
    return {};
}

Result<void> restore_snapshot(const BoxImpl& box, const std::string& name, const RestoreOptions& options) {
    TRY(check_name(name));
    if (options.force) TRY(stop_box(box, {.grace = std::chrono::milliseconds(0)}));
    const base::FileLock bases = TRY(base::FileLock::acquire_shared(box.runtime->home.bases_lock()));
    std::optional<base::FileLock> changes = TRY(lock_changes(box));
    const SnapshotRecord record = TRY(read_snapshot(box.folder, name));
    if (connect_supervisor(box.folder).ok())
        return base::make_error(ErrorCode::kInvalidState,
                                "box '{}' is running; stop it first, or restore with force", box.config.name);
    TRY(wait_for_supervisor_to_go(box));
    if (!options.memory) return replace_disk(box, record, [] { return Result<void>(); });
    const CapturedMachine machine = TRY(machine_of(box, record));
    StartOptions start;
    start.detach = options.detach;
    return replace_disk(box, record, [&]() -> Result<void> {
        changes.reset();
        TRY(launch_box(box, start, {&machine, {}}));
        return await_box(box);
    });
}

Result<std::shared_ptr<BoxImpl>> box_from_snapshot(const BoxImpl& box, const std::string& name,
                                                   const std::string& new_name,
                                                   const RestoreOptions& options) {
    TRY(check_name(name));
    RuntimeImpl& runtime = *box.runtime;
    const base::FileLock bases = TRY(base::FileLock::acquire_shared(runtime.home.bases_lock()));
    const SnapshotRecord record = TRY(read_snapshot(box.folder, name));
    CapturedMachine machine;
    if (options.memory) machine = TRY(machine_of(box, record));
    auto child = TRY(make_child(box, record.layer, new_name));
    if (!options.memory) return child;
    StartOptions start;
    start.detach = options.detach;
    auto started = [&]() -> Result<void> {
        TRY(launch_box(*child, start, {&machine, new_machine_id()}));
        return await_box(*child);
    }();
    if (started.ok()) return child;
    (void)remove_box(runtime, child->config, true);
    return std::move(started).error();
}

}  // namespace boxlite::runtime
