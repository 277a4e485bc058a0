#include "net/stack_memory.h"

#include <malloc.h>

#include <algorithm>

namespace boxlite::net {

namespace {

constexpr int kBuffer = 128 << 10;
constexpr size_t kOnHeap = 128;  // connections
constexpr size_t kMany = 32, kFew = 4;
constexpr int kKeptHeap = 2 << 20;
constexpr std::chrono::milliseconds kQuiet{1'000};

}  // namespace

void StackMemory::prepare() {
    ::mallopt(M_MMAP_THRESHOLD, 2 * kBuffer);
    // Or the heap's end goes down with each frame, and up with the next.
    ::mallopt(M_TRIM_THRESHOLD, kKeptHeap);
    ::mallopt(M_TOP_PAD, kKeptHeap / 4);
}

void StackMemory::settle(size_t connections) {
    connections_ = connections;
    most_ = std::max(most_, connections);
    if (most_ >= kMany && connections <= kFew && !timer_)
        timer_ = loop_.after(kQuiet, [this] { clear_out(); });
    const bool on_heap = connections < kOnHeap;
    if (on_heap == on_heap_) return;
    on_heap_ = on_heap;
    ::mallopt(M_MMAP_THRESHOLD, on_heap ? 2 * kBuffer : kBuffer);
}

void StackMemory::clear_out() {
    timer_ = 0;
    if (connections_ > kFew) return;
    ::malloc_trim(kKeptHeap);
    most_ = connections_;
}

StackMemory::~StackMemory() {
    if (timer_) loop_.cancel(timer_);
}

}  // namespace boxlite::net
