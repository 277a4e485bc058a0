// Snapshots of a box: making, restoring, removing. See Box's members for what they promise.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<SnapshotInfo> create_snapshot(const BoxImpl& box, const std::string& name,
                                     const SnapshotOptions& options);
std::vector<SnapshotInfo> snapshots_of(const BoxImpl& box);
Result<void> remove_snapshot(const BoxImpl& box, const std::string& name);
Result<void> restore_snapshot(const BoxImpl& box, const std::string& name, const RestoreOptions& options);
Result<std::shared_ptr<BoxImpl>> box_from_snapshot(const BoxImpl& box, const std::string& name,
                                                   const std::string& new_name,
                                                   const RestoreOptions& options);

}  // namespace boxlite::runtime
