// One virtual processor on a thread of its own.
#pragma once

#include <linux/kvm.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "engine/kvm/boot.h"
#include "engine/kvm/vm.h"
#include "jail/thread_role.h"
#include "rpc/snapshot.pb.h"

namespace boxlite::engine::kvm {

// What a processor asks of the machine around it. Called on the threads of all vCPUs at once.
class ExitHandler {
  public:
    virtual ~ExitHandler() = default;
    virtual void read_port(uint16_t port, std::span<uint8_t> data) = 0;
    virtual void write_port(uint16_t port, base::ByteView data) = 0;
    virtual void read_memory(uint64_t address, std::span<uint8_t> data) = 0;
    virtual void write_memory(uint64_t address, base::ByteView data) = 0;
    virtual void end_of_interrupt(uint8_t vector) = 0;
    virtual void triple_fault() = 0;
    // The processor cannot go on, for a reason that is not the guest's alone.
    virtual void failed(const std::string& reason) = 0;
    // The machine is over: no processor goes back into the guest.
    virtual bool ended() const = 0;
};

class Vcpu {
  public:
    // Processor `id`, which shows what `cpuid` says. It waits for another one to start it.
    static Result<std::unique_ptr<Vcpu>> make(Vm& vm, uint32_t id,
                                              const std::vector<kvm_cpuid_entry2>& cpuid);
    ~Vcpu();
    Vcpu(const Vcpu&) = delete;
    Vcpu& operator=(const Vcpu&) = delete;

    // Before start(): where it begins.
    Result<void> set_boot_state(const BootState& boot);
    Result<void> restore(const snapshot::v1::Vcpu& state);
    // While it is paused.
    Result<snapshot::v1::Vcpu> save(const Vm& vm) const;

    // `handler` outlives the thread. With a role, the thread is closed in by it.
    Result<void> start(ExitHandler& handler, jail::ThreadRole* role = nullptr);
    // Asks the thread to leave the guest and end. Like join() and what follows, for the thread that called
    // start().
    void request_stop();
    void join();

    // Asks the thread to leave the guest and wait for resume(); wait_paused() returns when it does, with
    // nothing half done, or when it has ended.
    void request_pause();
    void wait_paused();
    void resume();

    // How many of the guest's instructions KVM has carried out itself; nullopt when it does not count them.
    std::optional<uint64_t> emulated_instructions() const;
    // What its thread has used.
    std::chrono::nanoseconds cpu_time();

  private:
    Vcpu(uint32_t id, base::Fd fd) : id_(id), fd_(std::move(fd)) {}
    Result<void> set_up(const Vm& vm, const std::vector<kvm_cpuid_entry2>& cpuid);
    void run(ExitHandler& handler);
    void handle_exit(ExitHandler& handler);
    void handle_ports(ExitHandler& handler);
    void park();
    void kick();

    uint32_t id_;
    base::Fd fd_;
    kvm_run* run_ = nullptr;
    size_t map_size_ = 0;
    std::atomic<bool> stopping_ = false;
    std::atomic<bool> pause_wanted_ = false;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool parked_ = false;  // or ended: the thread is not in the guest
    std::thread thread_;
};

}  // namespace boxlite::engine::kvm
