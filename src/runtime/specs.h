// What the supervisor and the agent are told: a box's record as messages of the wire contract.
#pragma once

#include "boxlite/options.h"
#include "rpc/box.pb.h"
#include "runtime/box_record.h"
#include "runtime/home.h"

namespace boxlite::runtime {

// Complete but for the paths of kernel, initramfs, and the folders of logs and of a private network.
v1::BoxSpec box_spec(const BoxConfig& config, const BoxFolder& folder, const StartOptions& options);

v1::NetworkPolicy network_policy(const BoxConfig& config);

// As they were asked for.
std::vector<PortMapping> ports_of(const BoxConfig& config);

v1::ProcessSpec main_process(const BoxConfig& config, const StartOptions& options);

// A relative working directory of the command counts from the box's.
v1::ProcessSpec exec_process(const BoxConfig& config, const Command& command);

}  // namespace boxlite::runtime
