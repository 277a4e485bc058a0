// Snapshots on disk. Each is a folder of the box, boxes/<id>/snapshots/<name>/:
//   snapshot.json  what it is, written last; format 3. One of format 2 with memory has a guest that cannot
//                  take another network address, so its disk alone can be restored.
//   machine        with memory only: a serialized MachineImage
//   memory.0 …     with memory only: the layers of the guest's memory, sparse. A layer that another
//                  snapshot of the box has too is one file with several names.
//   checked        with memory only: what those files looked like when their checksums were found right, a
//                  line each. While they look so, and until the host is started again, a restore does not
//                  read them all: it takes as long for a large memory as for a small one.
// The disk is a layer of another kind (see layers.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/capture.h"
#include "runtime/home.h"

namespace boxlite::runtime {

inline constexpr int64_t kSnapshotFormat = 3;

struct SnapshotRecord {
    int64_t format = kSnapshotFormat;
    std::string name;
    int64_t created_at = 0;  // ns since the epoch
    std::string layer;
    bool memory = false;
    // With memory only: what it can go on with.
    uint64_t memory_bytes = 0;
    std::string kernel;          // sha256 of its file, hex
    std::string machine_sha256;  // of the file "machine"
    struct MemoryFile {
        std::string id;      // of the layer
        std::string sha256;  // of its pages that are not all zeroes, each after its offset
    };
    std::vector<MemoryFile> memory_files;
};

// Of the folder; `name` is one that check_name() allows.
std::string snapshot_path(const BoxFolder& folder, const std::string& name);
std::string memory_path(const std::string& snapshot_path, size_t index);

// Oldest first. One that is damaged is left out.
std::vector<SnapshotRecord> list_snapshots(const BoxFolder& folder);
// kNotFound; kMetadata when it is damaged, kUnsupported when a newer release wrote it.
Result<SnapshotRecord> read_snapshot(const BoxFolder& folder, const std::string& name);
// The layers that the box's snapshots stand on. An error when one of them does not tell: it is damaged, or of
// a newer release.
Result<std::vector<std::string>> layers_of_snapshots(const BoxFolder& folder);

// After a crash at any moment it is there as a whole or not at all. `machine` is null for a disk alone. Fills
// in what `record` says of the machine. kAlreadyExists.
Result<void> write_snapshot(const BoxFolder& folder, SnapshotRecord record, const CapturedMachine* machine);
// Checks all of it that may have changed since the last time. kMetadata when something is not as it was
// written.
Result<CapturedMachine> read_machine(const BoxFolder& folder, const SnapshotRecord& record);

Result<void> remove_snapshot_files(const BoxFolder& folder, const std::string& name);

// sha256 of a file, hex.
Result<std::string> file_sha256(const std::string& path);

}  // namespace boxlite::runtime
