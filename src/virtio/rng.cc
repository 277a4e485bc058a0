#include "virtio/rng.h"

#include <algorithm>

#include "base/id.h"

namespace boxlite::virtio {

namespace {
constexpr size_t kMaxPerRequest = 4096;
}

void Rng::process(size_t index) {
    Queue& queue = host_->queue(index);
    do {
        queue.disable_kicks();
        while (auto chain = queue.pop()) {
            uint8_t buffer[kMaxPerRequest];
            const auto bytes =
                std::span(buffer).first(std::min<uint64_t>(chain->writable_bytes(), kMaxPerRequest));
            base::random_bytes(bytes);
            const bool written = write_segments(queue.memory(), chain->writable, 0, bytes);
            queue.push(chain->head, written ? static_cast<uint32_t>(bytes.size()) : 0);
        }
    } while (queue.enable_kicks());
    host_->notify(index);
}

}  // namespace boxlite::virtio
