#include "virtio/console.h"

#include <algorithm>

namespace boxlite::virtio {

namespace {
constexpr size_t kTransmit = 1;
constexpr size_t kPiece = 4096;
// A chain may name the same memory again and again: what one request can print must not keep the loop busy.
constexpr uint64_t kMaxPerRequest = 1 << 20;
}  // namespace

void Console::process(size_t index) {
    if (index != kTransmit) return;
    Queue& queue = host_->queue(index);
    do {
        queue.disable_kicks();
        while (auto chain = queue.pop()) {
            const uint64_t bytes = std::min(chain->readable_bytes(), kMaxPerRequest);
            for (uint64_t offset = 0; offset < bytes; offset += kPiece) {
                uint8_t buffer[kPiece];
                const auto piece = std::span(buffer).first(std::min<uint64_t>(kPiece, bytes - offset));
                if (!read_segments(queue.memory(), chain->readable, offset, piece)) break;
                sink_(piece);
            }
            queue.push(chain->head, 0);
        }
    } while (queue.enable_kicks());
    host_->notify(index);
}

}  // namespace boxlite::virtio
