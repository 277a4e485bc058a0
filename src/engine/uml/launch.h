// Starting the kernel process of the uml engine: its command line, its descriptors, its jail.
#pragma once

#include <string>
#include <vector>

#include "jail/jail.h"
#include "virtio/device.h"

namespace boxlite::engine::uml {

struct LaunchPlan {
    struct Device {
        base::Fd socket;  // the driver's end
        virtio::DeviceType type;
    };
    base::Fd kernel;
    base::Fd initramfs;
    base::Fd console;  // gets the kernel's messages
    std::vector<Device> devices;
    std::string box_id;
    std::string cgroup_note;
    uint32_t memory_mib = 0;
    uint32_t max_map_count = 0;  // vm.max_map_count of the host
    bool single_processor = false;
    std::string user_mode;
    bool strict_jail = false;
};

// The kernel's arguments for a plan, argv[0] included. Inherited descriptors are named "@N" (see
// guest/kernel/patches).
std::vector<std::string> kernel_arguments(const LaunchPlan& plan);

// On a thread that lives as long as the process does.
Result<jail::JailedProcess> launch(const LaunchPlan& plan);

}  // namespace boxlite::engine::uml
