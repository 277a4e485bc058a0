// The box's TCP connections: each is decided here. One that goes by an address, or that no name has to be
// held against, is connected in place of the stack's own socket, which then carries it without a copy of
// ours. One that goes by a name, or may carry requests that have to be looked at, is first looked into (see
// Inspection). Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "net/dialing.h"
#include "net/flow.h"
#include "net/inspection.h"
#include "net/interceptor.h"
#include "net/placeholders.h"
#include "net/stack.h"
#include "net/stack_memory.h"

namespace boxlite::net {

class TcpFlows final : public Dialer {
  public:
    static constexpr size_t kMaxFlows = 16384;

    struct Outside {
        // Takes connections to the box's name server.
        std::function<void(base::Fd)> serve_dns;
        // As Stack::renew.
        std::function<void(int fd)> renew;
        // Looks into TLS; nullptr: nobody does.
        Interceptor* interceptor = nullptr;
    };
    TcpFlows(base::EventLoop& loop, const Dialing& dialing, const Placeholders& secrets, FlowLog& log,
             Outside outside);
    ~TcpFlows() override;

    // Ends what the rules refuse by now.
    void recheck();

    int connect(int fd, const Endpoint& to) override;
    void accepted(int fd) override;
    void closed(int fd) override;
    bool on_hold(int fd) override;

  private:
    struct Entry {
        Flow flow;
        bool by_name = false;
        bool by_request = false;
        std::unique_ptr<Inspection> inspection;
    };
    int refuse(const Endpoint& to, const Verdict& verdict);
    int connect_dns(int fd);
    int inspect(int fd, Entry& entry, const Dialing::Route& route);
    Inspection::Handlers handlers(int fd, Entry& entry);
    // Whether it matters what is said on it.
    bool is_looked_into(const Entry& entry) const;
    // Whether only requests that a rule allows may go out on it, to this host ("": none that is known).
    bool is_by_request(const Entry& entry, const std::string& host) const;
    std::string check_host(const Entry& entry, const std::string& host) const;
    std::string check_request(const Entry& entry, const HttpHead& head) const;
    // Whether the rules of now want to see requests on a connection that is passed on as it is.
    bool is_unseen(const Entry& entry, const Verdict& verdict) const;

    base::EventLoop& loop_;
    const Dialing& dialing_;
    FlowLog& log_;
    const Placeholders& secrets_;
    Outside outside_;
    std::map<int, Entry> entries_;  // by the stack's descriptor
    StackMemory memory_;
};

}  // namespace boxlite::net
