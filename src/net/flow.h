// The record of what the box's connections did, on its way to the shim.
#pragma once

#include <deque>
#include <functional>

#include "base/event_loop.h"
#include "net/policy.h"
#include "rpc/box.pb.h"

namespace boxlite::net {

// One connection while it is open.
struct Flow {
    int64_t started_at_ns = 0;
    Protocol protocol = Protocol::kTcp;
    bool incoming = false;
    Endpoint peer;
    std::string name;
    std::string rule;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    std::string error;
    bool refused = false;  // by rules that came later, which has been told
};

class FlowLog {
  public:
    using Report = std::function<void(const v1::FlowReport&)>;

    // `report` is called from the loop, with what happened in a short while.
    FlowLog(base::EventLoop& loop, Report report) : loop_(loop), report_(std::move(report)) {}

    Flow open(Protocol protocol, const Endpoint& peer, const Verdict& verdict);
    void close(const Flow& flow);
    // Refusals that repeat the last ones in a short while are counted and not told again.
    void refuse(std::string_view protocol, const Endpoint& peer, std::string_view name,
                std::string_view rule);

    // Reports what has not been yet.
    void flush();

    uint64_t open_flows() const { return open_; }
    uint64_t total_flows() const { return total_; }
    uint64_t refused() const { return refused_; }
    uint64_t open_tcp() const { return open_tcp_; }
    // Refused ones among them.
    uint64_t tcp_errors() const { return tcp_errors_; }

  private:
    void add(v1::Flow flow);

    base::EventLoop& loop_;
    Report report_;
    v1::FlowReport pending_;
    bool scheduled_ = false;
    struct Refusal {
        std::string what;
        base::Clock::time_point at;
    };
    std::deque<Refusal> recent_;
    uint64_t open_ = 0;
    uint64_t total_ = 0;
    uint64_t refused_ = 0;
    uint64_t open_tcp_ = 0;
    uint64_t tcp_errors_ = 0;
};

}  // namespace boxlite::net
