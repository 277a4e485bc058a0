// The box's TCP connections: each is decided here. One that goes by an address, or that no name has to be
// held against, is connected in place of the stack's own socket, which then carries it without a copy of
// ours. One that goes by a name is first looked into (see Inspection). Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "net/dialing.h"
#include "net/flow.h"
#include "net/inspection.h"
#include "net/stack.h"

namespace boxlite::net {

class TcpFlows final : public Dialer {
  public:
    static constexpr size_t kMaxFlows = 16384;

    // `serve_dns` takes connections to the box's name server. `renew` as Stack::renew.
    TcpFlows(base::EventLoop& loop, const Dialing& dialing, FlowLog& log,
             std::function<void(base::Fd)> serve_dns, std::function<void(int fd)> renew);
    ~TcpFlows() override;

    // Ends what the rules refuse by now.
    void recheck();

    int connect(int fd, const Endpoint& to) override;
    bool may_echo(const IpAddress& to) override;
    void accepted(int fd) override;
    void closed(int fd) override;
    bool on_hold(int fd) override;

  private:
    struct Entry {
        Flow flow;
        std::unique_ptr<Inspection> inspection;
    };
    int refuse(const Endpoint& to, const Verdict& verdict);
    int connect_dns(int fd);
    int inspect(int fd, Entry& entry, const Endpoint& to);

    base::EventLoop& loop_;
    const Dialing& dialing_;
    FlowLog& log_;
    std::function<void(base::Fd)> serve_dns_;
    std::function<void(int)> renew_;
    std::map<int, Entry> entries_;  // by the stack's descriptor
};

}  // namespace boxlite::net
