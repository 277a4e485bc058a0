#include "engine/uml/launch.h"

#include "jail/seccomp.h"

namespace boxlite::engine::uml {

namespace {

// Numbers in the kernel process: 0, 1 and 2 are the console.
constexpr int kInitramfsFd = 3;
constexpr int kFirstDeviceFd = 4;

// For a processor of 5 GHz. The kernel would spend a third of its boot on measuring it, for busy waits that
// none of its devices asks for.
constexpr int kLoopsPerJiffy = 50'000'000;

// Beside the guest's memory: the kernel's own image, and what the host keeps for each guest process.
constexpr uint64_t kKernelOverheadMib = 256;
// One host process for each address space in the guest.
constexpr uint64_t kMaxGuestProcesses = 32768;

}  // namespace

std::vector<std::string> kernel_arguments(const LaunchPlan& plan) {
    std::vector<std::string> arguments = {
        "linux",
        fmt::format("mem={}M", plan.memory_mib),
        fmt::format("initrd=@{}", kInitramfsFd),
        // auto: ptrace where the host has no seccomp for us.
        plan.user_mode == "ptrace" ? "seccomp=off" : "seccomp=auto",
        "rdinit=/init",
        "con0=fd:0,fd:1",
        "con=null",
        "console=tty0",
        "uml_dir=",
        "quiet",
        "panic=-1",  // a panic ends the machine at once
        "random.trust_bootloader=off",
        fmt::format("lpj={}", kLoopsPerJiffy),
        // Tables that are written at boot, by the size of memory unless told: each page is a fault on the
        // host.
        "dhash_entries=16384",
        "ihash_entries=8192",
        "thash_entries=4096",
        "uhash_entries=512",
        fmt::format("max_map_count={}", plan.max_map_count),
    };
    // Looking for the other side's answer would keep it from giving one.
    if (plan.single_processor) arguments.emplace_back("spin=off");
    int fd = kFirstDeviceFd;
    for (const LaunchPlan::Device& device : plan.devices)
        arguments.push_back(
            fmt::format("virtio_uml.device=@{}:{}", fd++, static_cast<uint32_t>(device.type)));
    return arguments;
}

Result<jail::JailedProcess> launch(const LaunchPlan& plan) {
    jail::JailedProgram program;
    program.binary = plan.kernel.get();
    program.argv = kernel_arguments(plan);
    // Kernels before 6.13 abort with the rseq area that glibc registers; to later ones it makes no
    // difference. The kernel finds the top of its address space by its environment strings, and glibc moves
    // the tunables elsewhere: there must be another one.
    program.env = {"GLIBC_TUNABLES=glibc.pthread.rseq=0", "HOME=/"};
    // What the console reads from: never ready, and unlike /dev/null something that can be waited for.
    const base::Fd silence = TRY(base::make_eventfd());
    program.fds = {{silence.get(), 0},
                   {plan.console.get(), 1},
                   {plan.console.get(), 2},
                   {plan.initramfs.get(), kInitramfsFd}};
    int fd = kFirstDeviceFd;
    for (const LaunchPlan::Device& device : plan.devices) program.fds.emplace_back(device.socket.get(), fd++);

    jail::JailOptions options;
    options.seccomp = TRY(jail::uml_kernel_policy());
    options.uid = jail::box_uid(plan.box_id);
    options.strict = plan.strict_jail;
    options.cgroup.name = plan.box_id;
    options.cgroup.note = plan.cgroup_note;
    options.cgroup.memory_max = (uint64_t{plan.memory_mib} + kKernelOverheadMib) << 20;
    options.cgroup.pids_max = kMaxGuestProcesses;
    return jail::spawn_jailed(program, options);
}

}  // namespace boxlite::engine::uml
