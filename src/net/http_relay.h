// A plain HTTP connection that was let through by name: every request on it is held against the rules before
// it is passed on, also those behind the first. What has asked for another protocol, with its first request,
// and was granted it, is passed on as it is.
// Memory is bounded: about kMaxHttpHead and kBufferBytes each way.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <string>

#include "base/event_loop.h"
#include "net/http_head.h"

namespace boxlite::net {

// Takes what the box sends, and says how much of it may go on.
class HttpRequests {
  public:
    // "" for a request that may go out, else why not.
    using Check = std::function<std::string(const HttpHead& head)>;
    explicit HttpRequests(Check check) : check_(std::move(check)) {}

    // How many more bytes of `held`, which begins where the last call's answer ended, may go on. 0 for a
    // request that is not there yet.
    size_t clear(base::ByteView held);
    // Why the connection has to end; "" while it does not.
    const std::string& problem() const { return problem_; }
    // What the other side answers, as long as it matters.
    void answered(base::ByteView bytes);

  private:
    enum class State { kHead, kBody, kChunked, kAsked, kOpaque };
    size_t clear_head(base::ByteView held);

    Check check_;
    State state_ = State::kHead;
    std::string problem_;
    bool first_ = true;
    bool asks_ = false;    // for another protocol, once its body is through
    bool tunnel_ = false;  // with CONNECT
    uint64_t body_ = 0;
    ChunkedBody chunks_;
    std::string answer_;  // to the request that asked, as far as it is needed
};

class HttpRelay {
  public:
    static constexpr size_t kBufferBytes = 128 << 10;

    struct Handlers {
        std::function<void(const std::string& why)> refused;
        // The connection is to be reset for the box; the relay is over.
        std::function<void()> reset;
    };
    // Both ends are connected and non-blocking. Nothing has been read from either.
    HttpRelay(base::EventLoop& loop, base::Fd inside, base::Fd outside, HttpRequests::Check check,
              Handlers handlers);
    ~HttpRelay();
    HttpRelay(const HttpRelay&) = delete;
    HttpRelay& operator=(const HttpRelay&) = delete;

    Result<void> start();
    int outside() const { return outside_.fd.get(); }

  private:
    struct Side {
        base::Fd fd;
        base::Bytes out;     // to be written to it
        bool ended = false;  // it sends no more
        bool shut = false;   // we send no more
        bool gone = false;   // epoll has nothing more to say of it
        uint32_t events = 0;
    };
    void ready(Side& side, uint32_t events);
    void run();
    bool read(Side& from);
    bool write(Side& to);
    void watch(Side& side, bool wants_read);
    void end();

    base::EventLoop& loop_;
    Side inside_, outside_;
    HttpRequests requests_;
    Handlers handlers_;
    base::Bytes held_;  // from the box, not yet cleared
    bool over_ = false;
};

}  // namespace boxlite::net
