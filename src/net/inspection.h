// A TCP connection that was let through by the name of its destination, until it has said for itself where it
// wants to go: TLS in its server name, HTTP in its Host. When that agrees with the rules the connection is
// handed over to the stack as it is, but for plain HTTP, whose later requests are looked at too (see
// HttpRelay); a protocol that names no host goes by its address's name alone.
//
// The stack's socket is one end of a pair meanwhile. Nothing is read from it before the decision, so a
// refused connection is reset and has reached nobody. Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "net/address.h"
#include "net/http_relay.h"

namespace boxlite::net {

class Inspection {
  public:
    struct Handlers {
        // Whether a connection that says it is for `host` may go to where this one goes.
        std::function<bool(const std::string& host)> may_go;
        std::string name;
        // The stack has to look at its socket anew.
        std::function<void()> renew;
        std::function<void(const std::string& why)> refused;
        // The stack's socket is to become one that was reset.
        std::function<void()> reset;
    };

    // Begins to dial. `fd` is the stack's non-blocking socket, which is replaced.
    static Result<std::unique_ptr<Inspection>> start(base::EventLoop& loop, int fd, const Endpoint& to,
                                                     Handlers handlers);
    ~Inspection();
    Inspection(const Inspection&) = delete;
    Inspection& operator=(const Inspection&) = delete;

    // Whether it is not yet known that somebody answers.
    bool dialling() const { return state_ == State::kDialling; }
    // The connection to the destination, while it is not the stack's own; -1 when it is.
    int outside() const { return relay_ ? relay_->outside() : outside_.get(); }

  private:
    enum class State { kDialling, kWaiting, kMoving, kOver };

    Inspection(base::EventLoop& loop, int fd, base::Fd outside, base::Fd inside, Handlers handlers)
        : loop_(loop),
          fd_(fd),
          outside_(std::move(outside)),
          inside_(std::move(inside)),
          handlers_(std::move(handlers)) {}
    void outside_ready(uint32_t events);
    void dialled();
    void look();
    void refuse(const std::string& why);
    void relay();
    std::string check(const std::string& host) const;
    void move();
    void hand_over();
    void give_up();

    base::EventLoop& loop_;
    int fd_;
    base::Fd outside_;  // to the destination
    base::Fd inside_;   // the other end of the stack's
    Handlers handlers_;
    State state_ = State::kDialling;
    base::Bytes unsent_;
    std::unique_ptr<HttpRelay> relay_;
    bool box_ended_ = false;
};

}  // namespace boxlite::net
