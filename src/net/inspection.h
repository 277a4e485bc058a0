// A TCP connection that was let through, until it has said for itself where it wants to go: TLS in its server
// name, HTTP in its Host. When that agrees with the rules the connection is handed over to the stack as it
// is, but for plain HTTP, whose later requests are looked at too (see HttpRelay), and for TLS that is to be
// looked into (see Interceptor); a protocol that names no host goes by its address's name alone.
//
// The stack's socket is one end of a pair meanwhile. Nothing is read from it before the decision, so a
// refused connection is reset and has reached nobody. Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "net/address.h"
#include "net/http_relay.h"
#include "net/proxy_handshake.h"

namespace boxlite::net {

class Inspection {
  public:
    struct Handlers {
        // "", or why a connection that says it is for `host` may not go to where this one goes.
        std::function<std::string(const std::string& host)> check;
        // The same for a request of plain HTTP.
        HttpRequests::Check check_request;
        // Whether TLS for this host is to be looked into.
        std::function<bool(const std::string& host)> is_intercepted;
        // Takes both ends of the connection for that; nothing has been read from either.
        std::function<Result<void>(const std::string& host, base::Fd inside, const base::Fd& outside)>
            intercept;
        // The stack has to look at its socket anew.
        std::function<void()> renew;
        std::function<void(const std::string& why)> refused;
        // It was not refused, and did not come about.
        std::function<void(const std::string& why)> failed;
        // The stack's socket is to become one that was reset.
        std::function<void()> reset;
        // An opening that garbles or hides its host is refused; else it goes on without being looked into.
        bool strict = true;
        // False: whatever it says is passed on, as soon as it is connected.
        bool looks = true;
        // Whether only HTTP may go on, of a connection that asks for `host` ("": for none).
        std::function<bool(const std::string& host)> http_only;
    };

    // Begins to dial. `fd` is the stack's non-blocking socket, which is replaced. Each of `to` is tried that
    // the one before it did not answer at; with `proxy` that is where it listens.
    static Result<std::unique_ptr<Inspection>> start(base::EventLoop& loop, int fd, std::vector<Endpoint> to,
                                                     std::optional<ProxyHandshake> proxy, Handlers handlers);
    ~Inspection();
    Inspection(const Inspection&) = delete;
    Inspection& operator=(const Inspection&) = delete;

    // Whether it is not yet known that somebody answers.
    bool dialling() const { return state_ == State::kDialling || state_ == State::kAtProxy; }
    // What passed between netd and a proxy, which is none of the box's.
    const std::optional<ProxyHandshake>& proxy() const { return proxy_; }
    // Whether what the box asks for on it is still looked at.
    bool looks_on() const { return relay_ || intercepted_; }
    // The connection to the destination, while it is not the stack's own; -1 when it is.
    int outside() const { return relay_ ? relay_->outside() : outside_.get(); }

  private:
    enum class State { kDialling, kAtProxy, kWaiting, kMoving, kOver };

    Inspection(base::EventLoop& loop, int fd, std::vector<Endpoint> to, base::Fd inside,
               std::optional<ProxyHandshake> proxy, Handlers handlers)
        : loop_(loop),
          fd_(fd),
          to_(std::move(to)),
          inside_(std::move(inside)),
          proxy_(std::move(proxy)),
          handlers_(std::move(handlers)) {}
    Result<void> dial();
    void outside_ready(uint32_t events);
    void dialled();
    void ask_proxy();
    void wait_for_opening();
    void fail(const std::string& why);
    void look();
    void refuse(const std::string& why);
    void relay();
    void intercept(const std::string& host);
    void go_on(const std::string& host);
    void move();
    void hand_over();
    void give_up();
    void drop_ends();

    base::EventLoop& loop_;
    int fd_;
    std::vector<Endpoint> to_;
    size_t next_ = 0;   // of them, to be tried
    base::Fd outside_;  // to the destination
    base::Fd inside_;   // the other end of the stack's
    std::optional<ProxyHandshake> proxy_;
    Handlers handlers_;
    State state_ = State::kDialling;
    base::Bytes unsent_;
    std::unique_ptr<HttpRelay> relay_;
    bool box_ended_ = false;
    bool intercepted_ = false;
};

}  // namespace boxlite::net
