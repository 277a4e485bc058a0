#include "virtio/balloon.h"

namespace boxlite::virtio {

namespace {

constexpr uint64_t kFeatureDeflateOnOom = 1 << 2;
constexpr uint64_t kFeatureReporting = 1 << 5;
// Linux sends 256 page numbers at a time.
constexpr size_t kMaxPagesAtOnce = 4096;

}  // namespace

uint64_t Balloon::features() const {
    return kFeatureDeflateOnOom | kFeatureReporting;
}

// num_pages, and what the driver tells of itself, for which nobody asks.
base::Bytes Balloon::config() const {
    base::Bytes config(16);
    base::store_le<uint32_t>(config.data(), pages_);
    return config;
}

void Balloon::process(size_t index) {
    Queue& queue = host_->queue(index);
    do {
        queue.disable_kicks();
        while (auto chain = queue.pop()) {
            if (index == kInflateQueue) take_pages(queue.memory(), *chain);
            if (index == kReportingQueue)
                for (const Segment& free : chain->writable) queue.memory().discard(free.address, free.length);
            queue.push(chain->head, 0);
        }
    } while (queue.enable_kicks());
    host_->notify(index);
}

// Page numbers, of which runs are given back at once.
void Balloon::take_pages(const GuestMemory& memory, const Chain& chain) const {
    base::Bytes numbers(std::min<uint64_t>(chain.readable_bytes(), kMaxPagesAtOnce * sizeof(uint32_t)));
    if (!read_segments(memory, chain.readable, 0, numbers)) return;
    uint64_t from = 0, to = 0;
    for (size_t i = 0; i + sizeof(uint32_t) <= numbers.size(); i += sizeof(uint32_t)) {
        const uint64_t page = uint64_t{base::load_le<uint32_t>(numbers.data() + i)} * kPage;
        if (page + kPage == from) {
            from = page;
        } else if (page == to && from != to) {
            to += kPage;
        } else {
            if (from != to) memory.discard(from, to - from);
            from = page;
            to = page + kPage;
        }
    }
    if (from != to) memory.discard(from, to - from);
}

void Balloon::set_size(uint64_t bytes) {
    pages_ = static_cast<uint32_t>(bytes / kPage);
    if (host_) host_->loop().post([this] { host_->config_changed(); });
}

}  // namespace boxlite::virtio
