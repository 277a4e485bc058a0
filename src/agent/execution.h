// One process that was started for a client, from the clone until its exit has been told.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/container.h"
#include "agent/messages.h"
#include "agent/stdio.h"
#include "agent/stream.h"
#include "base/event_loop.h"
#include "rpc/channel.h"

namespace boxlite::agent {

class Execution {
  public:
    struct Events {
        // The program runs. An error here ends the start as if the program had failed.
        std::function<Result<void>(Execution&)> on_running;
        // It never ran and has been reaped, or it has ended. May destroy the execution.
        std::function<void(Execution&)> on_failed;
        std::function<void(Execution&)> on_ended;
    };

    // `start` is answered when the program runs, or when it turns out that it cannot.
    static Result<std::unique_ptr<Execution>> make(base::EventLoop& loop, Container& container,
                                                   std::string id, Launched launched, Stdio stdio,
                                                   const v1::ProcessSpec& spec, rpc::Responder start,
                                                   Events events);
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;
    ~Execution();

    const std::string& id() const { return id_; }
    const Launched& launched() const { return launched_; }
    bool ended() const { return state_ == State::kEnded; }

    void read(v1::Stream stream, uint32_t max_bytes, rpc::Responder responder);
    void write(std::string data, bool close_after, rpc::Responder responder);
    void wait(rpc::Responder responder);
    Result<void> signal(int number, bool group);
    Result<void> resize(const v1::Tty& size) const;
    // Drops what waits for an answer; the streams stay open.
    void forget_requests();
    // Nobody will read or write any more.
    void close_streams();

  private:
    enum class State { kStarting, kRunning, kEnded };

    Execution(base::EventLoop& loop, Container& container, std::string id, Launched launched, Stdio stdio,
              bool terminal, rpc::Responder start, Events events);
    void on_status();
    void fail_start(const Error& error);
    void set_timeout(uint32_t timeout_ms);
    void on_exit();

    base::EventLoop& loop_;
    Container& container_;
    std::string id_;
    Launched launched_;
    bool terminal_;
    std::optional<rpc::Responder> start_;
    Events events_;
    InputStream in_;
    OutputStream out_;
    OutputStream err_;
    State state_ = State::kStarting;
    std::vector<rpc::Responder> waiters_;
    v1::ExitStatus exit_;
    bool killed_by_us_ = false;
    base::EventLoop::TimerId timer_ = 0;
};

}  // namespace boxlite::agent
