// netd's end of the socket that carries the box's ethernet frames, one a message, at no more than a given
// rate each way. A box that sends too fast is held back, and so is a producer that asks congested().
// Thread safety: the loop's thread.
#pragma once

#include <deque>
#include <functional>

#include "base/bytes.h"
#include "base/event_loop.h"
#include "net/token_bucket.h"

namespace boxlite::net {

class FramePort {
  public:
    static constexpr size_t kMaxFrame = 18 + 65535;
    // Frames that wait for room in the socket. What does not fit is dropped, as on any wire.
    static constexpr size_t kMaxQueuedBytes = 4 << 20;

    struct Handlers {
        std::function<void(base::ByteView frame)> frame;
        // The queue has become empty, after send() made it wait.
        std::function<void()> writable;
        // The other end is gone.
        std::function<void()> closed;
    };
    // Bytes a second; 0: no limit.
    struct Rates {
        uint64_t from_box = 0;
        uint64_t to_box = 0;
    };

    FramePort(base::EventLoop& loop, base::Fd socket, const Rates& rates, Handlers handlers,
              size_t max_queued_bytes = kMaxQueuedBytes);
    ~FramePort();
    FramePort(const FramePort&) = delete;
    FramePort& operator=(const FramePort&) = delete;

    Result<void> start();
    void send(base::ByteView frame);
    // Whether frames wait: a producer that can, waits for `writable`.
    bool congested() const { return !queue_.empty(); }
    uint64_t received_bytes() const { return received_bytes_; }
    uint64_t sent_bytes() const { return sent_bytes_; }

  private:
    void ready(uint32_t events);
    void read_frames();
    bool write_frame(base::ByteView frame);
    void flush();
    void watch_what_matters();

    base::EventLoop& loop_;
    base::Fd socket_;
    Handlers handlers_;
    const size_t max_queued_bytes_;
    base::Bytes buffer_;
    std::deque<base::Bytes> queue_;
    size_t queued_bytes_ = 0;
    uint64_t received_bytes_ = 0;
    uint64_t sent_bytes_ = 0;
    TokenBucket from_box_;
    TokenBucket to_box_;
    base::EventLoop::TimerId read_timer_ = 0;   // the box has to wait
    base::EventLoop::TimerId write_timer_ = 0;  // what is for the box has to wait
    bool full_ = false;                         // the socket is
    uint32_t events_ = 0;
};

}  // namespace boxlite::net
