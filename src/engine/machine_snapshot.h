// A machine at one instant: its state and its memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"

namespace boxlite::engine {

// A part of a machine's memory, by its offset in the memory's files. In whole pages.
struct MemoryRun {
    uint64_t offset;
    uint64_t size;
};

// A file as large as the memory, of which `runs` count, over the layers before it. The first has all. Nobody
// writes to it any more.
struct MemoryLayer {
    base::Fd file;
    std::vector<MemoryRun> runs;
    std::string id;  // of its own, wherever it goes
};

struct MachineSnapshot {
    std::string state;  // snapshot.v1.Machine
    std::vector<MemoryLayer> memory;
};

}  // namespace boxlite::engine
