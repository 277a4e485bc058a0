// Where the stack's buffers come from: it has two of 128 KiB for each connection, and one of the largest
// frame for each frame that is under way. To map and to unmap one costs more than the rest of a short
// connection, and on the heap it keeps what memory was ever in it: a hundred connections have theirs on the
// heap, which is cleared out a second after few are left, the others mapped. Thread safety: malloc's settings
// are the process's, and the process has one stack and one thread.
#pragma once

#include <cstddef>

#include "base/event_loop.h"

namespace boxlite::net {

class StackMemory {
  public:
    // Once, before the stack is there.
    static void prepare();
    explicit StackMemory(base::EventLoop& loop) : loop_(loop) {}
    ~StackMemory();
    StackMemory(const StackMemory&) = delete;
    StackMemory& operator=(const StackMemory&) = delete;
    // With each connection that comes or goes.
    void settle(size_t connections);

  private:
    void clear_out();

    base::EventLoop& loop_;
    base::EventLoop::TimerId timer_ = 0;
    bool on_heap_ = true;
    size_t connections_ = 0;
    size_t most_ = 0;  // of them, since the heap was last cleared out
};

}  // namespace boxlite::net
