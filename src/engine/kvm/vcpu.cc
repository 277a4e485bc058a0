#include "engine/kvm/vcpu.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cstring>
#include <future>

#include "engine/kvm/vcpu_state.h"

namespace boxlite::engine::kvm {

namespace {

// kvm_stats_desc up to its name, and where its offset is.
constexpr size_t kStatsEntry = 16, kStatsOffset = 8;
constexpr uint64_t kProtectedMode = 0x11;  // CR0: PE, ET
constexpr uint64_t kFlagsReserved = 2;
constexpr uint32_t kMiscEnable = 0x1a0;
constexpr uint64_t kFastStrings = 1;

// Blocked on a vCPU's thread but for the time in the guest, which it ends; never delivered.
int kick_signal() {
    return SIGRTMIN;
}

// What a kick asks for was written down before it. One that stays pending would end every entry.
void take_kicks() {
    sigset_t kicks;
    sigemptyset(&kicks);
    sigaddset(&kicks, kick_signal());
    constexpr timespec kNow{};
    while (::sigtimedwait(&kicks, nullptr, &kNow) > 0) {
    }
}

kvm_segment flat_segment(uint16_t selector, uint8_t type) {
    kvm_segment segment{};
    segment.limit = 0xffff'ffff;
    segment.selector = selector;
    segment.type = type;
    segment.present = segment.db = segment.s = segment.g = 1;
    return segment;
}

kvm_segment task_segment() {
    kvm_segment segment{};
    segment.limit = 0x67;
    segment.selector = 0x18;
    segment.type = 11;  // a busy 32-bit TSS
    segment.present = 1;
    return segment;
}

}  // namespace

Result<std::unique_ptr<Vcpu>> Vcpu::make(Vm& vm, uint32_t id, const std::vector<kvm_cpuid_entry2>& cpuid) {
    std::unique_ptr<Vcpu> self(new Vcpu(id, TRY(vm.make_vcpu(id))));
    TRY_CONTEXT(self->set_up(vm, cpuid), fmt::format("vCPU {}", id));
    return self;
}

Vcpu::~Vcpu() {
    request_stop();
    join();
    if (run_) ::munmap(run_, map_size_);
}

Result<void> Vcpu::set_up(const Vm& vm, const std::vector<kvm_cpuid_entry2>& entries) {
    void* mapped = ::mmap(nullptr, vm.vcpu_map_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (mapped == MAP_FAILED) return base::errno_error(ErrorCode::kEngine, "map its state");
    run_ = static_cast<kvm_run*>(mapped);
    map_size_ = vm.vcpu_map_size();

    auto table = std::make_unique<CpuidTable>();
    if (entries.size() > kMaxCpuidEntries)
        return base::make_error(ErrorCode::kEngine, "{} CPUID entries are too many", entries.size());
    std::copy(entries.begin(), entries.end(), table->entries);
    table->count = static_cast<uint32_t>(entries.size());
    if (::ioctl(fd_.get(), ioctls::kSetCpuid2, table.get()) < 0)
        return base::errno_error(ErrorCode::kEngine, "set what CPUID shows");

    OneMsr fast_strings;
    fast_strings.entry.index = kMiscEnable;
    fast_strings.entry.data = kFastStrings;
    if (::ioctl(fd_.get(), ioctls::kSetMsrs, &fast_strings) != 1)
        return base::errno_error(ErrorCode::kEngine, "enable fast strings");

    SignalMask mask;
    const uint64_t blocked = ~(uint64_t{1} << (kick_signal() - 1));
    std::memcpy(mask.set, &blocked, sizeof blocked);
    if (::ioctl(fd_.get(), ioctls::kSetSignalMask, &mask) < 0)
        return base::errno_error(ErrorCode::kEngine, "set its signal mask");
    return {};
}

Result<void> Vcpu::restore(const snapshot::v1::Vcpu& state) {
    TRY_CONTEXT(restore_vcpu(fd_.get(), state), fmt::format("vCPU {}", id_));
    return {};
}

Result<snapshot::v1::Vcpu> Vcpu::save(const Vm& vm) const {
    auto state = save_vcpu(fd_.get(), vm.msrs());
    if (state.ok()) return state;
    return std::move(state).error().with_context(fmt::format("vCPU {}", id_));
}

Result<void> Vcpu::set_boot_state(const BootState& boot) {
    kvm_sregs system{};
    if (::ioctl(fd_.get(), KVM_GET_SREGS, &system) < 0)
        return base::errno_error(ErrorCode::kEngine, "read its system registers");
    constexpr uint8_t kCode = 11, kData = 3;  // accessed; code readable, data writable
    system.cs = flat_segment(0x8, kCode);
    system.ds = system.es = system.ss = system.fs = system.gs = flat_segment(0x10, kData);
    system.tr = task_segment();
    system.cr0 = kProtectedMode;
    kvm_regs general{};
    general.rip = boot.entry;
    general.rbx = boot.start_info;
    general.rflags = kFlagsReserved;
    if (::ioctl(fd_.get(), KVM_SET_SREGS, &system) < 0 || ::ioctl(fd_.get(), KVM_SET_REGS, &general) < 0)
        return base::errno_error(ErrorCode::kEngine, "set its registers");
    return {};
}

Result<void> Vcpu::start(ExitHandler& handler, jail::ThreadRole* role) {
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    std::promise<Result<void>> closed_in;
    thread_ = std::thread([this, &handler, role, &closed_in] {
        auto applied = role ? role->enter() : Result<void>();
        const bool go = applied.ok();
        closed_in.set_value(std::move(applied));
        if (go) run(handler);
    });
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    pthread_setname_np(thread_.native_handle(), fmt::format("vcpu{}", id_).c_str());
    return closed_in.get_future().get();
}

void Vcpu::kick() {
    if (thread_.joinable()) pthread_kill(thread_.native_handle(), kick_signal());
}

void Vcpu::request_stop() {
    stopping_ = true;
    resume();
    kick();
}

void Vcpu::join() {
    if (thread_.joinable()) thread_.join();
}

void Vcpu::request_pause() {
    pause_wanted_ = true;
    kick();
}

void Vcpu::wait_paused() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return parked_; });
}

void Vcpu::resume() {
    const std::scoped_lock lock(mutex_);
    pause_wanted_ = false;
    changed_.notify_all();
}

// KVM's documentation, 4.133 KVM_GET_STATS_FD.
std::optional<uint64_t> Vcpu::emulated_instructions() const {
    constexpr std::string_view kName = "insn_emulation";
    const base::Fd stats(::ioctl(fd_.get(), KVM_GET_STATS_FD, 0));
    kvm_stats_header header{};
    const auto read_at = [&stats](uint64_t offset, std::span<uint8_t> into) {
        return base::pread_exact(stats.get(), into, offset).ok();
    };
    if (!stats.valid() || !read_at(0, {reinterpret_cast<uint8_t*>(&header), sizeof header})) return {};
    base::Bytes entry(kStatsEntry + header.name_size);
    for (uint32_t i = 0; i < header.num_desc; ++i) {
        if (!read_at(header.desc_offset + i * entry.size(), entry)) return {};
        const char* name = reinterpret_cast<const char*>(&entry[kStatsEntry]);
        if (std::string_view(name, ::strnlen(name, header.name_size)) != kName) continue;
        uint8_t value[sizeof(uint64_t)];
        if (!read_at(header.data_offset + base::load_le<uint32_t>(&entry[kStatsOffset]), value)) return {};
        return base::load_le<uint64_t>(value);
    }
    return {};
}

std::chrono::nanoseconds Vcpu::cpu_time() {
    clockid_t clock;
    timespec time{};
    if (pthread_getcpuclockid(thread_.native_handle(), &clock) == 0) ::clock_gettime(clock, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void Vcpu::park() {
    // What the last exit began is finished by the next entry, which this one ends at once.
    run_->immediate_exit = 1;
    (void)::ioctl(fd_.get(), KVM_RUN, 0);
    run_->immediate_exit = 0;
    std::unique_lock lock(mutex_);
    parked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !pause_wanted_; });
    parked_ = false;
}

void Vcpu::run(ExitHandler& handler) {
    std::string failure;
    while (!stopping_ && !handler.ended() && failure.empty()) {
        if (pause_wanted_)
            park();
        else if (::ioctl(fd_.get(), KVM_RUN, 0) == 0)
            handle_exit(handler);
        else if (errno == EINTR)
            take_kicks();
        else if (errno != EAGAIN)  // just woken by another processor
            failure = base::errno_error(ErrorCode::kEngine, "run vCPU {}", id_).message;
    }
    if (!failure.empty()) handler.failed(failure);
    const std::scoped_lock lock(mutex_);
    parked_ = true;
    changed_.notify_all();
}

void Vcpu::handle_exit(ExitHandler& handler) {
    switch (run_->exit_reason) {
        case KVM_EXIT_IO:
            return handle_ports(handler);
        case KVM_EXIT_MMIO: {
            const auto data = std::span(run_->mmio.data).first(std::min<size_t>(run_->mmio.len, 8));
            if (run_->mmio.is_write)
                handler.write_memory(run_->mmio.phys_addr, data);
            else
                handler.read_memory(run_->mmio.phys_addr, data);
            return;
        }
        case KVM_EXIT_IOAPIC_EOI:
            return handler.end_of_interrupt(run_->eoi.vector);
        case KVM_EXIT_SHUTDOWN:
            return handler.triple_fault();
        case KVM_EXIT_FAIL_ENTRY:
            return handler.failed(fmt::format("vCPU {} could not enter the guest: hardware reason {:#x}", id_,
                                              run_->fail_entry.hardware_entry_failure_reason));
        case KVM_EXIT_INTERNAL_ERROR:
            return handler.failed(
                fmt::format("KVM gave up on vCPU {}: internal error {}", id_, run_->internal.suberror));
        default:
            return handler.failed(
                fmt::format("vCPU {} left the guest for an unknown reason {}", id_, run_->exit_reason));
    }
}

void Vcpu::handle_ports(ExitHandler& handler) {
    uint8_t* data = reinterpret_cast<uint8_t*>(run_) + run_->io.data_offset;
    for (uint32_t i = 0; i < run_->io.count && !handler.ended(); ++i, data += run_->io.size) {
        const auto value = std::span(data, run_->io.size);
        if (run_->io.direction == KVM_EXIT_IO_OUT)
            handler.write_port(run_->io.port, value);
        else
            handler.read_port(run_->io.port, value);
    }
}

}  // namespace boxlite::engine::kvm
