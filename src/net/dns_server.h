// The box's name server: answers what is the box's own, lets through what the policy lets it ask, remembers
// which addresses it was told, and keeps from it addresses that its connections may not go to.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "net/dns_message.h"
#include "net/flow.h"
#include "net/host_resolver.h"
#include "net/pins.h"
#include "net/private_network.h"
#include "net/proxy.h"
#include "net/stand_ins.h"

namespace boxlite::net {

class DnsServer {
  public:
    static constexpr uint16_t kPort = 53;
    static constexpr size_t kMaxStreams = 64;

    // Names that the host cannot resolve and that go through its proxy get addresses that stand for them.
    struct Unresolved {
        const Proxies& proxies;
        StandIns& names;
        // The host's search list: names below are its own, and the box tries them for others.
        std::vector<std::string> own_domains;
    };
    // All outlive it; `policy` is read at each question.
    DnsServer(base::EventLoop& loop, const Policy& policy, Pins& pins, FlowLog& log, HostResolver& resolver,
              Unresolved unresolved, std::string hostname);
    ~DnsServer();

    // Other boxes that have names here. It outlives this; nullptr: there are none.
    void use(const PrivateNetwork* network) { private_network_ = network; }
    DnsServer(const DnsServer&) = delete;
    DnsServer& operator=(const DnsServer&) = delete;

    // `reply` is called with the answer, now or later, and not at all for what is no query.
    using Reply = std::function<void(base::ByteView answer)>;
    void query(base::ByteView message, bool stream, Reply reply);
    // Serves a connection (RFC 7766): a non-blocking stream socket.
    void serve(base::Fd stream);

  private:
    struct Stream;
    struct Asked {
        base::Bytes message;
        dns::Question question;
        Reply reply;
    };
    std::vector<IpAddress> own_addresses(const std::string& name) const;
    bool answer_locally(const Asked& asked) const;
    bool answer_reverse(const Asked& asked) const;
    bool answer_known_stand_in(const Asked& asked, const std::string& host) const;
    bool answer_stand_in(const Asked& asked, base::ByteView answer);
    void refuse(const Asked& asked, dns::ResponseCode code, std::string_view rule) const;
    void pass_on(const Asked& asked, base::ByteView answer);
    void stream_ready(const std::shared_ptr<Stream>& stream, uint32_t events);
    void flush(const std::shared_ptr<Stream>& stream);
    void drop(const std::shared_ptr<Stream>& stream);

    base::EventLoop& loop_;
    const Policy& policy_;
    Pins& pins_;
    FlowLog& log_;
    HostResolver& resolver_;
    Unresolved unresolved_;
    const std::string hostname_;
    const PrivateNetwork* private_network_ = nullptr;
    std::set<std::shared_ptr<Stream>> streams_;
    // Answers may come after the server has gone.
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace boxlite::net
