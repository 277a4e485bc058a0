// One virtual processor on a thread of its own.
#pragma once

#include <linux/kvm.h>

#include <atomic>
#include <string>
#include <thread>

#include "engine/kvm/boot.h"
#include "engine/kvm/vm.h"

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
    // Processor `id` of `cpus`. The first starts in `boot`; the others wait for it to start them.
    static Result<std::unique_ptr<Vcpu>> make(Vm& vm, uint32_t id, uint32_t cpus, const BootState& boot);
    ~Vcpu();
    Vcpu(const Vcpu&) = delete;
    Vcpu& operator=(const Vcpu&) = delete;

    // `handler` outlives the thread.
    void start(ExitHandler& handler);
    // Asks the thread to leave the guest and end. Like join(), for the thread that called start().
    void request_stop();
    void join();

  private:
    Vcpu(uint32_t id, base::Fd fd) : id_(id), fd_(std::move(fd)) {}
    Result<void> set_up(const Vm& vm, uint32_t cpus, const BootState& boot);
    Result<void> set_boot_state(const BootState& boot);
    void run(ExitHandler& handler);
    void handle_exit(ExitHandler& handler);
    void handle_ports(ExitHandler& handler);

    uint32_t id_;
    base::Fd fd_;
    kvm_run* run_ = nullptr;
    size_t map_size_ = 0;
    std::atomic<bool> stopping_ = false;
    std::thread thread_;
};

}  // namespace boxlite::engine::kvm
