// The machine around the container: what PID 1 of a fresh kernel has to see to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/messages.h"
#include "base/fd.h"

namespace boxlite::agent {

// The port on the host (CID 2) where the shim waits for the agent.
inline constexpr uint32_t kAgentPort = 2695;

// Mounts of the agent's own and limits that every process inherits. Once, as PID 1.
Result<void> prepare_machine();

// A connection to the shim.
Result<base::Fd> connect_to_host();

// Sets the clock.
Result<void> set_clock(int64_t realtime_ns);
// Feeds the kernel's random number generator, credited in full. At least 32 bytes.
Result<void> add_entropy(std::string_view bytes);
// Nothing that the generator gave out before tells what it gives out from now on.
Result<void> reseed();
// 127.0.0.1 and ::1.
Result<void> bring_up_loopback();
// The top of the cgroup2 hierarchy, where prepare_machine() has mounted it.
Result<base::Fd> open_cgroups();

// Of the container, whose cgroup is the directory `cgroup` and whose disk is mounted at `disk`. What the
// kernel does not count stays 0.
v1::GuestStats read_stats(int cgroup, const std::string& disk);

std::string kernel_release();
uint64_t memory_bytes();

// Syncs and switches the machine off. Does not return.
[[noreturn]] void power_off();

}  // namespace boxlite::agent
