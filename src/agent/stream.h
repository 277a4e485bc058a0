// The agent's ends of a process's standard input and output, or of a tunnel's socket. Nothing is buffered
// here but the bytes of requests at hand: the kernel's pipe or terminal is the only buffer, so whoever is
// slow holds up whoever is fast. A pipe that turns out to carry much is enlarged, so that each request
// carries more.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/fd.h"
#include "rpc/channel.h"

namespace boxlite::agent {

inline constexpr uint32_t kMaxRead = uint32_t{1} << 20;

// Answers Read requests in their order. Each waits until there is a byte.
class OutputStream {
  public:
    // `fd` is non-blocking; invalid: a stream that is at its end.
    OutputStream(base::EventLoop& loop, base::Fd fd) : loop_(loop), fd_(std::move(fd)) {}
    OutputStream(const OutputStream&) = delete;
    OutputStream& operator=(const OutputStream&) = delete;
    ~OutputStream() { close(); }

    void read(uint32_t max_bytes, rpc::Responder responder);
    // From now on "empty" means "at its end", even while a descendant keeps the pipe open.
    void process_ended();
    // Drops the requests that wait.
    void forget_requests() { waiting_.clear(); }
    // Requests that wait get the end of the stream.
    void close();
    // -1 once closed.
    int fd() const { return fd_.get(); }

  private:
    struct Waiting {
        uint32_t max_bytes;
        rpc::Responder responder;
    };
    enum class Outcome { kAnswered, kNothing, kEnd };
    Outcome answer(uint32_t max_bytes, rpc::Responder& responder);
    void serve();
    void arm();
    void enlarge();

    base::EventLoop& loop_;
    base::Fd fd_;
    bool watched_ = false;
    bool process_ended_ = false;
    std::unique_ptr<uint8_t[]> large_;  // for answers from an enlarged pipe
    std::deque<Waiting> waiting_;
};

// Takes Write requests in their order. Each is answered when the pipe has taken all of its bytes.
class InputStream {
  public:
    enum class Kind {
        kPipe,
        kTerminal,  // a close after the data is not passed on
        kSocket,    // a close ends the sending half, also where the descriptor has duplicates
    };
    // `fd` is non-blocking; invalid: closed.
    InputStream(base::EventLoop& loop, base::Fd fd, Kind kind)
        : loop_(loop), fd_(std::move(fd)), kind_(kind) {}
    InputStream(const InputStream&) = delete;
    InputStream& operator=(const InputStream&) = delete;
    ~InputStream() { close(); }

    void write(std::string data, bool close_after, rpc::Responder responder);
    // Drops the requests that wait, with what is left of their data.
    void forget_requests() { waiting_.clear(); }
    // Requests that wait fail with kInvalidState.
    void close();

  private:
    struct Waiting {
        std::string data;
        size_t written = 0;
        bool close_after = false;
        rpc::Responder responder;
    };
    Error no_reader() const;
    void serve();
    void arm();

    base::EventLoop& loop_;
    base::Fd fd_;
    Kind kind_;
    bool watched_ = false;
    bool enlarged_ = false;
    std::deque<Waiting> waiting_;
};

}  // namespace boxlite::agent
