// What crashes leave behind, and what nothing needs any more.
#include <set>

#include "base/file.h"
#include "base/log.h"
#include "runtime/bases.h"
#include "runtime/box_impl.h"
#include "runtime/layers.h"
#include "runtime/listing.h"

namespace boxlite::runtime {

void collect_stale_folders(RuntimeImpl& runtime) {
    // Whoever creates a box shares this lock from before the folder is there until the record is.
    const auto lock = base::FileLock::try_acquire(runtime.home.boxes_lock());
    if (!lock.ok()) return;
    const std::vector<std::string> folders = names_in(runtime.home.boxes());
    const auto known = runtime.state->box_ids();
    if (!known.ok()) return;
    const std::set<std::string> recorded(known->begin(), known->end());
    for (const std::string& id : folders) {
        if (recorded.contains(id)) continue;
        const BoxFolder folder = runtime.home.box(id);
        const auto alive = supervisor_exists(folder);
        if (!alive.ok() || *alive) continue;
        base::log_info("stale folder removed", {{"box", id}});
        remove_leftovers(id, folder);
        (void)base::remove_tree(folder.path);
    }
}

void collect_unused_bases(RuntimeImpl& runtime) {
    const auto lock = base::FileLock::try_acquire(runtime.home.bases_lock());
    if (!lock.ok()) return;  // a box is being made; the next removal collects
    collect_unused_layers(runtime.home);
    const auto unused = runtime.state->take_unused_bases();
    if (!unused.ok()) {
        base::log_warn("bases not collected", {{"error", unused.error().message}});
        return;
    }
    for (const std::string& id : *unused) {
        base::log_info("base removed", {{"base", id}});
        (void)base::remove_tree(base_path(runtime.home, id));
        // Builders share the bases lock, so nobody waits on this one.
        (void)base::remove_tree(base_lock_path(runtime.home, id));
    }
}

}  // namespace boxlite::runtime
