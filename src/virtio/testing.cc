#include "virtio/testing.h"

#include <cstdlib>

namespace boxlite::virtio::testing {

namespace {

constexpr uint64_t kDescriptorBytes = 16;

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

Ram::Ram() : fd_(base::make_memfd("guest", kRamSize).value()) {
    std::vector<GuestMemory::Region> regions;
    regions.push_back({kRamBase, MappedMemory::map(fd_.get(), 0, kRamSize).value()});
    memory_ = GuestMemory::make(std::move(regions)).value();
}

uint64_t Ram::allocate(uint64_t bytes) {
    const uint64_t address = next_;
    next_ += (bytes + 15) / 16 * 16;
    require(next_ <= kRamBase + kRamSize);
    return address;
}

Buffer Ram::readable(base::ByteView content) {
    const uint64_t address = allocate(content.size());
    write(address, content);
    return {address, static_cast<uint32_t>(content.size()), false};
}

Buffer Ram::writable(uint32_t length) {
    return {allocate(length), length, true};
}

base::Bytes Ram::read(uint64_t address, size_t length) const {
    base::Bytes bytes(length);
    require(length == 0 || memory_->read(address, bytes));
    return bytes;
}

void Ram::write(uint64_t address, base::ByteView content) const {
    require(content.empty() || memory_->write(address, content));
}

DriverQueue::DriverQueue(Ram& ram, uint16_t entries) : ram_(ram) {
    addresses_.size = entries;
    addresses_.descriptors = ram.allocate(kDescriptorBytes * entries);
    addresses_.available = ram.allocate(4 + 2 * uint64_t{entries} + 2);
    addresses_.used = ram.allocate(4 + 8 * uint64_t{entries} + 2);
    for (uint16_t i = entries; i > 0; --i) free_.push_back(i - 1);
}

void DriverQueue::describe(uint64_t table, uint16_t index, const Buffer& buffer, uint16_t flags,
                           uint16_t next) const {
    const uint64_t at = table + index * kDescriptorBytes;
    ram_.put<uint64_t>(at, buffer.address);
    ram_.put<uint32_t>(at + 8, buffer.length);
    ram_.put<uint16_t>(at + 12, static_cast<uint16_t>(flags | (buffer.writable ? kDescWrite : 0)));
    ram_.put<uint16_t>(at + 14, next);
}

void DriverQueue::offer(uint16_t head) {
    ram_.put<uint16_t>(addresses_.available + 4 + 2 * slot(available_), head);
    set_available_index(++available_);
}

void DriverQueue::set_available_index(uint16_t index) const {
    ram_.put<uint16_t>(addresses_.available + 2, index);
}

uint16_t DriverQueue::fill(uint64_t table, const std::vector<Buffer>& buffers,
                           const std::vector<uint16_t>& indices) {
    for (size_t i = 0; i < buffers.size(); ++i) {
        const bool last = i + 1 == buffers.size();
        describe(table, indices[i], buffers[i], last ? 0 : kDescNext, last ? 0 : indices[i + 1]);
    }
    return indices[0];
}

uint16_t DriverQueue::post(const std::vector<Buffer>& buffers, bool indirect) {
    std::vector<uint16_t> indices;
    for (size_t i = 0; i < (indirect ? 1 : buffers.size()); ++i) {
        require(!free_.empty());
        indices.push_back(free_.back());
        free_.pop_back();
    }
    if (indirect) {
        std::vector<uint16_t> inner(buffers.size());
        for (size_t i = 0; i < inner.size(); ++i) inner[i] = static_cast<uint16_t>(i);
        const Buffer table{ram_.allocate(kDescriptorBytes * buffers.size()),
                           static_cast<uint32_t>(kDescriptorBytes * buffers.size()), false};
        fill(table.address, buffers, inner);
        describe(addresses_.descriptors, indices[0], table, kDescIndirect, 0);
    } else {
        fill(addresses_.descriptors, buffers, indices);
    }
    const uint16_t head = indices[0];
    chains_[head] = std::move(indices);
    offer(head);
    return head;
}

std::optional<DriverQueue::Used> DriverQueue::take_used() {
    if (ram_.get<uint16_t>(addresses_.used + 2) == used_) return std::nullopt;
    const uint64_t element = addresses_.used + 4 + 8 * slot(used_);
    ++used_;
    const Used used{ram_.get<uint32_t>(element), ram_.get<uint32_t>(element + 4)};
    if (auto chain = chains_.extract(static_cast<uint16_t>(used.head)))
        free_.insert(free_.end(), chain.mapped().begin(), chain.mapped().end());
    return used;
}

FakeHost::FakeHost(Device& device, uint16_t entries, uint64_t features)
    : device_(device),
      loop_(base::EventLoop::make().value()),
      queues_(device.queue_count()),
      notified_(device.queue_count()) {
    for (Queue& queue : queues_) {
        drivers_.emplace_back(ram_, entries);
        require(queue.start(ram_.memory(), drivers_.back().addresses(), features).ok());
    }
    device.attach(*this);
}

void FakeHost::notify(size_t index) {
    ++notified_[index];
}

std::optional<uint32_t> FakeHost::request(size_t index, const std::vector<Buffer>& buffers, bool indirect) {
    const uint16_t head = driver(index).post(buffers, indirect);
    kick(index);
    const auto used = driver(index).take_used();
    if (!used) return std::nullopt;
    require(used->head == head);
    return used->written;
}

void FakeHost::turn() {
    testing::turn(*loop_);
}

void turn(base::EventLoop& loop) {
    // Stopping passes over what else is ready in the same round, so it has to come in the next one.
    loop.post([&] { loop.stop(); });
    require(loop.run().ok());
}

}  // namespace boxlite::virtio::testing
