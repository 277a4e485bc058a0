// A running box at one instant: what forks and snapshots are made of.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"
#include "rpc/box.pb.h"
#include "runtime/box_impl.h"

namespace boxlite::runtime {

// A machine as its supervisor hands it over, and as another one takes it.
struct CapturedMachine {
    v1::MachineImage image;
    std::vector<base::Fd> memory;  // of each of its layers

    // The first layer has all of it.
    uint32_t memory_mib() const { return static_cast<uint32_t>(image.layers(0).runs(0).size() >> 20); }
};

struct Capture {
    std::string layer;  // the disk
    CapturedMachine machine;
    std::chrono::nanoseconds pause{0};  // how long nothing ran in the box
};

// `connection` is to the box's supervisor. The caller holds the box's change lock and shares the bases lock
// until something stands on the layer. kUnsupported when the box's engine cannot keep a machine's memory.
Result<Capture> capture_box(const BoxImpl& box, Connection& connection, bool with_memory);

}  // namespace boxlite::runtime
