#include "engine/kvm/memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/file.h"
#include "base/id.h"
#include "engine/kvm/layout.h"

namespace boxlite::engine::kvm {

namespace {

constexpr uint64_t kPage = 4096;
constexpr size_t kPagesAtOnce = 8192;
constexpr size_t kMaxRuns = 16384;
constexpr size_t kIdLength = 24;

}  // namespace

std::vector<MemorySlot> memory_slots(uint64_t bytes) {
    const uint64_t low = std::min(bytes, kHoleStart);
    std::vector<MemorySlot> slots = {{0, low, 0}};
    if (bytes > low) slots.push_back({kHoleEnd, bytes - low, low});
    return slots;
}

// The kernel itself reserves what is between the low memory's end and 1 MiB.
std::vector<MemoryRange> memory_map(uint64_t bytes) {
    const uint64_t low = std::min(bytes, kHoleStart);
    std::vector<MemoryRange> map = {{0, kLowMemoryEnd, kUsableMemory},
                                    {kHighMemory, low - kHighMemory, kUsableMemory}};
    if (bytes > low) map.push_back({kHoleEnd, bytes - low, kUsableMemory});
    return map;
}

Result<std::vector<MemoryLayer>> duplicate(const std::vector<MemoryLayer>& layers) {
    std::vector<MemoryLayer> copies;
    copies.reserve(layers.size());
    for (const MemoryLayer& layer : layers)
        copies.push_back({TRY(layer.file.duplicate()), layer.runs, layer.id});
    return copies;
}

// Calls `use` with each part of `run` that lies in one slot, and where this process has it.
template <typename Use>
static Result<void> for_each_part(const virtio::GuestMemory& view, uint64_t bytes, const MemoryRun& run,
                                  Use&& use) {
    for (const MemorySlot& slot : memory_slots(bytes)) {
        const uint64_t from = std::max(run.offset, slot.file_offset);
        const uint64_t to = std::min(run.offset + run.size, slot.file_offset + slot.size);
        if (from >= to) continue;
        const iovec part = view.range_for_io(slot.guest_address + (from - slot.file_offset), to - from);
        TRY(use(static_cast<uint8_t*>(part.iov_base), MemoryRun{from, to - from}));
    }
    return {};
}

// Linux's admin-guide/mm/transhuge: whether a memfd gets huge pages that asks for them.
static Result<void> check_huge_pages() {
    constexpr const char* kSetting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    const auto setting = base::read_file(kSetting, 4096);
    for (const char* good : {"[always]", "[within_size]", "[advise]", "[force]"})
        if (setting.ok() && setting->find(good) != std::string::npos) return {};
    return base::make_error(
        ErrorCode::kUnsupported,
        "this host gives no huge pages to shared memory; its administrator can change that: "
        "echo advise > {}",
        kSetting);
}

Result<MachineMemory> MachineMemory::make(uint64_t bytes, bool huge_pages) {
    if (huge_pages) TRY(check_huge_pages());
    MachineMemory memory(bytes);
    memory.own_file_ = TRY(base::make_memfd("boxlite-guest-memory", bytes));
    TRY(memory.map(memory.own_file_.get(), true));
    if (huge_pages)
        TRY(for_each_part(*memory.view_, bytes, {0, bytes},
                          [](uint8_t* at, const MemoryRun& part) -> Result<void> {
                              if (::madvise(at, part.size, MADV_HUGEPAGE) < 0)
                                  return base::errno_error(ErrorCode::kUnsupported,
                                                           "have {} bytes in huge pages", part.size);
                              return {};
                          }));
    return memory;
}

Result<MachineMemory> MachineMemory::make(uint64_t bytes, std::vector<MemoryLayer> layers) {
    if (layers.empty()) return base::make_error(ErrorCode::kInternal, "a frozen memory without layers");
    MachineMemory memory(bytes);
    memory.layers_ = std::move(layers);
    TRY(memory.map(memory.layers_.front().file.get(), false));
    for (size_t i = 1; i < memory.layers_.size(); ++i) TRY(memory.lay_over(memory.layers_[i]));
    return memory;
}

Result<void> MachineMemory::map(int file, bool shared) {
    // Opened now: once this process is confined, it is out of reach.
    pagemap_ = TRY(base::open_file("/proc/self/pagemap", O_RDONLY));
    std::vector<virtio::GuestMemory::Region> regions;
    for (const MemorySlot& slot : memory_slots(bytes_)) {
        virtio::MappedMemory mapped =
            TRY(virtio::MappedMemory::map(file, slot.file_offset, slot.size, shared));
        regions.push_back({slot.guest_address, std::move(mapped)});
    }
    view_ = TRY(virtio::GuestMemory::make(std::move(regions)));
    return {};
}

Result<void> MachineMemory::lay_over(const MemoryLayer& layer) const {
    for (const MemoryRun& run : layer.runs)
        TRY(for_each_part(*view_, bytes_, run, [&](uint8_t* at, const MemoryRun& part) -> Result<void> {
            if (::mmap(at, part.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                       layer.file.get(), static_cast<off_t>(part.offset)) == MAP_FAILED)
                return base::errno_error(ErrorCode::kEngine, "map {} bytes of frozen memory", part.size);
            ::madvise(at, part.size, MADV_DONTDUMP);
            return {};
        }));
    return {};
}

// Linux's admin-guide/mm/pagemap: a private copy of a page is present, or swapped, and no page of a file.
Result<std::vector<MemoryRun>> MachineMemory::written_runs() const {
    constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62,
                       kOfFile = uint64_t{1} << 61;
    std::vector<MemoryRun> runs;
    std::vector<uint64_t> entries(kPagesAtOnce);
    TRY(for_each_part(*view_, bytes_, {0, bytes_}, [&](uint8_t* at, const MemoryRun& part) -> Result<void> {
        for (uint64_t done = 0; done < part.size; done += entries.size() * kPage) {
            const size_t count = std::min<uint64_t>(entries.size(), (part.size - done) / kPage);
            TRY(base::pread_exact(pagemap_.get(),
                                  {reinterpret_cast<uint8_t*>(entries.data()), count * sizeof entries[0]},
                                  (reinterpret_cast<uintptr_t>(at) + done) / kPage * sizeof entries[0]));
            for (size_t i = 0; i < count; ++i) {
                if (!(entries[i] & (kPresent | kSwapped)) || (entries[i] & kOfFile)) continue;
                const uint64_t offset = part.offset + done + i * kPage;
                if (!runs.empty() && runs.back().offset + runs.back().size == offset)
                    runs.back().size += kPage;
                else
                    runs.push_back({offset, kPage});
            }
        }
        return {};
    }));
    return runs;
}

Result<MemoryLayer> MachineMemory::copy(std::vector<MemoryRun> runs) const {
    MemoryLayer layer{TRY(base::make_memfd("boxlite-guest-memory", bytes_)), std::move(runs),
                      base::random_id(kIdLength)};
    for (const MemoryRun& run : layer.runs)
        TRY(for_each_part(*view_, bytes_, run, [&](uint8_t* at, const MemoryRun& part) {
            return base::pwrite_all(layer.file.get(), {at, part.size}, part.offset);
        }));
    return layer;
}

Result<std::vector<MemoryLayer>> MachineMemory::freeze() {
    if (own_file_.valid()) {
        layers_.push_back({std::move(own_file_), {{0, bytes_}}, base::random_id(kIdLength)});
    } else {
        size_t count = 0;
        for (const MemoryLayer& layer : layers_) count += layer.runs.size();
        std::vector<MemoryRun> runs = TRY(written_runs());
        // Each run is a mapping, of which a process can have only so many.
        if (count + runs.size() > kMaxRuns || layers_.size() == kMaxLayers) {
            MemoryLayer whole = TRY(copy({{0, bytes_}}));
            layers_.clear();
            layers_.push_back(std::move(whole));
        } else if (!runs.empty()) {
            layers_.push_back(TRY(copy(std::move(runs))));
        }
    }
    TRY(lay_over(layers_.back()));
    return duplicate(layers_);
}

}  // namespace boxlite::engine::kvm
