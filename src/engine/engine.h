// One running machine: a guest kernel with its virtio devices, whatever carries it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "engine/machine_snapshot.h"
#include "jail/jail.h"
#include "virtio/device.h"

namespace boxlite::engine {

// What this process has to reach of a machine besides its own descriptors.
struct MachineProcesses {
    pid_t group = 0;                   // process group to stop and continue; 0: none
    std::vector<std::string> cgroups;  // that this process removes at the end
};

struct MachineConfig {
    std::string box_id;
    std::string kernel_path;
    std::string initramfs_path;
    // Gets the machine's cgroups before they are made (see jail::CgroupLimits::note).
    std::string cgroup_note;
    uint32_t cpus = 1;
    uint32_t memory_mib = 1024;
    // Only kvm, for a machine that boots: its memory in huge pages. kUnsupported where the host gives none.
    bool huge_pages = false;
    // Outlive the machine. The guest finds them in this order.
    std::vector<virtio::Device*> devices;
    // uml: "seccomp" (fast; ptrace where the host has none) or "ptrace" (keeps the boundary between the
    // guest's users and its kernel).
    std::string user_mode = "seccomp";
    // True: an error when the host cannot give a part of the machine's confinement.
    bool strict_jail = false;
    // Called once the machine's process runs and before any thread of this process is started: the moment
    // for the caller to confine itself, since it will start no other process. An error ends the start.
    std::function<Result<void>(const MachineProcesses&)> confine;
    // Set: the machine goes on from there instead of booting, with the processors, the memory and devices of
    // the same kinds that it was taken with. Only kvm. The machine takes it.
    std::shared_ptr<MachineSnapshot> snapshot;
    // The guest kernel's messages, in pieces, on the machine's thread. Bounds what it keeps.
    std::function<void(base::ByteView)> console;
};

struct MachineExit {
    enum class Kind {
        kPowerOff,     // the guest shut down in order
        kReset,        // the guest restarted; a machine runs once
        kPanic,        // the guest kernel gave up
        kTripleFault,  // the guest's processor shut down
        kFailed,       // the host could not carry it on; the log says why
        kKilled,       // ended from outside: kill(), the host's memory limits, an administrator
    };
    Kind kind = Kind::kPowerOff;
    int code = 0;  // of the machine's process
    int signal = 0;
};

class Machine {
  public:
    virtual ~Machine() = default;  // kills the machine if it still runs

    virtual std::string engine() const = 0;     // "uml", "kvm"
    virtual std::string isolation() const = 0;  // "software", "hardware"
    // What confines the machine.
    virtual const jail::JailReport& jail() const = 0;
    virtual pid_t pid() const = 0;
    // The processor time that the guest's kernel has had.
    virtual std::chrono::nanoseconds processor_time() const = 0;
    // Ends the machine at once, as if its power was cut. The exit callback tells when it is over.
    virtual void kill() = 0;
    // Stops the guest's processors: nothing runs in it until resume(). kUnsupported when this machine cannot.
    virtual Result<void> pause() = 0;
    virtual Result<void> resume() = 0;
    // Calls `still` while no device of the machine does anything, and returns what it does.
    virtual Result<void> with_devices_still(const std::function<Result<void>()>& still) = 0;
    // The paused machine as it is now; `still` is called at that instant, as by with_devices_still(). The
    // machine may go on when the call returns. kUnsupported when this engine has no memory snapshots.
    virtual Result<MachineSnapshot> capture(const std::function<Result<void>()>& still) = 0;
};

// Called once, on `loop`'s thread, after the machine is gone and no device will be called again.
using ExitCallback = std::function<void(MachineExit)>;

// Starts a machine on the `uml` engine. `loop` is the caller's; devices run on threads of the machine.
Result<std::unique_ptr<Machine>> start_uml(const MachineConfig& config, base::EventLoop& loop,
                                           ExitCallback on_exit);

// Starts a machine on the `kvm` engine, in this process and so with its confinement. kUnsupported when the
// host has no KVM that can carry it.
Result<std::unique_ptr<Machine>> start_kvm(const MachineConfig& config, base::EventLoop& loop,
                                           ExitCallback on_exit);

// Whether this host's KVM really can: kUnsupported, with the reason, when not. At most about 50 ms.
Result<void> probe_kvm();

}  // namespace boxlite::engine
