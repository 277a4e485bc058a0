#include "engine/uml/launch.h"

#include <fcntl.h>

namespace boxlite::engine::uml {

namespace {

// Numbers in the kernel process: 0 is /dev/null, 1 and 2 the console.
constexpr int kInitramfsFd = 3;
constexpr int kFirstDeviceFd = 4;

}  // namespace

std::vector<std::string> kernel_arguments(const LaunchPlan& plan) {
    std::vector<std::string> arguments = {
        "linux",
        fmt::format("mem={}M", plan.memory_mib),
        fmt::format("initrd=@{}", kInitramfsFd),
        plan.user_mode == "ptrace" ? "seccomp=off" : "seccomp=on",
        "rdinit=/init",
        "con0=null,fd:1",
        "con=null",
        "console=tty0",
        "uml_dir=",
        "quiet",
        "panic=-1",  // a panic ends the machine at once
        "random.trust_bootloader=off",
    };
    int fd = kFirstDeviceFd;
    for (const LaunchPlan::Device& device : plan.devices)
        arguments.push_back(
            fmt::format("virtio_uml.device=@{}:{}", fd++, static_cast<uint32_t>(device.type)));
    return arguments;
}

Result<std::unique_ptr<Launched>> launch(LaunchPlan plan) {
    const base::Fd null = TRY(base::open_file("/dev/null", O_RDONLY));
    base::SpawnOptions options;
    options.argv = kernel_arguments(plan);
    // Kernels before 6.13 abort with the rseq area that glibc registers; to later ones it makes no
    // difference. The kernel finds the top of its address space by its environment strings, and glibc moves
    // the tunables elsewhere: there must be another one.
    options.env = std::vector<std::string>{"GLIBC_TUNABLES=glibc.pthread.rseq=0", "HOME=/"};
    options.fds = {{null.get(), 0},
                   {plan.console.get(), 1},
                   {plan.console.get(), 2},
                   {plan.initramfs.get(), kInitramfsFd}};
    int fd = kFirstDeviceFd;
    for (const LaunchPlan::Device& device : plan.devices) options.fds.emplace_back(device.socket.get(), fd++);
    options.argv[0] = fmt::format("/proc/self/fd/{}", plan.kernel.get());
    return std::make_unique<Launched>(Launched{TRY(base::Process::spawn(options)), {}});
}

}  // namespace boxlite::engine::uml
