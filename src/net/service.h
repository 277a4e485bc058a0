// One box's network, put together: what the shim asks of netd.
// Thread safety: the loop's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "net/dns_server.h"
#include "net/echo.h"
#include "net/frame_port.h"
#include "net/interceptor.h"
#include "net/placeholders.h"
#include "net/private_network.h"
#include "net/reassembly.h"
#include "net/stack.h"
#include "net/tcp.h"
#include "net/udp.h"
#include "rpc/channel.h"

namespace boxlite::net {

class Service {
  public:
    // `frames` carries the box's frames, `control` is the shim; the process ends with either. `interceptor`
    // looks into TLS connections, where there is one.
    static Result<std::unique_ptr<Service>> make(base::EventLoop& loop, base::Fd frames, base::Fd control,
                                                 std::unique_ptr<Interceptor> interceptor, Proxies proxies);
    ~Service();

  private:
    Service(base::EventLoop& loop, base::Fd frames, std::unique_ptr<Interceptor> interceptor, Proxies proxies)
        : loop_(loop),
          frames_(std::move(frames)),
          interceptor_(std::move(interceptor)),
          proxies_(std::move(proxies)) {}
    void handle(const rpc::RequestView& request, rpc::Responder responder);
    Result<v1::NetworkStatus> start(const v1::NetworkSpec& spec);
    Result<void> publish(const v1::NetworkSpec& spec, v1::NetworkStatus& status);
    Result<void> update(const v1::NetworkPolicy& rules);
    Result<Policy> parse_rules(const v1::NetworkPolicy& rules) const;
    void stop();
    void frame(base::ByteView frame);
    v1::NetworkCounters counters() const;

    base::EventLoop& loop_;
    base::Fd frames_;
    std::unique_ptr<Interceptor> interceptor_;
    const Proxies proxies_;
    std::shared_ptr<rpc::Channel> control_;
    std::unique_ptr<FlowLog> log_;
    Policy policy_;
    Pins pins_;
    StandIns stand_ins_;
    Placeholders secrets_;
    std::optional<BoxInterface> box_;
    std::optional<Dialing> dialing_;
    std::unique_ptr<HostResolver> resolver_;
    std::unique_ptr<DnsServer> dns_;
    std::unique_ptr<FramePort> port_;
    std::unique_ptr<TcpFlows> tcp_;
    std::unique_ptr<Stack> stack_;
    std::unique_ptr<UdpFlows> udp_;
    std::unique_ptr<Echoes> echoes_;
    Reassembly reassembly_;
    std::unique_ptr<PrivateNetwork> private_network_;  // none for a box without
};

}  // namespace boxlite::net
