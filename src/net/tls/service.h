// boxlite-tlsd, put together: what the shim, netd and whoever starts the box ask of it.
// Thread safety: the loop's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "net/packet_socket.h"
#include "net/tls/authority.h"
#include "net/tls/contexts.h"
#include "net/tls/session.h"
#include "rpc/box.pb.h"
#include "rpc/channel.h"

namespace boxlite::net::tls {

class Service {
  public:
    // `control` is the shim, and the process ends with it; `netd` brings connections; `secrets` listens for
    // those who bring values.
    static Result<std::unique_ptr<Service>> make(base::EventLoop& loop, base::Fd control, base::Fd netd,
                                                 base::Fd secrets);
    ~Service();

  private:
    Service(base::EventLoop& loop, base::Fd listener) : loop_(loop), listener_(std::move(listener)) {}
    void handle(const rpc::RequestView& request, rpc::Responder responder);
    Result<void> start(const v1::InterceptorSpec& spec);
    void answer_start();
    Result<void> update(const v1::NetworkPolicy& rules);
    void accept_clients();
    void handle_secrets(const rpc::RequestView& request, rpc::Responder responder);
    void receive(base::ByteView bytes, std::vector<base::Fd> ends);
    void intercept(const v1::Intercepted& message, std::vector<base::Fd> ends);
    void report(uint64_t id, const std::string& rule);

    base::EventLoop& loop_;
    base::Fd listener_;
    std::shared_ptr<rpc::Channel> control_;
    std::unique_ptr<PacketSocket> netd_;
    std::vector<std::shared_ptr<rpc::Channel>> clients_;
    std::optional<Contexts> contexts_;
    std::optional<Authority> authority_;
    std::unique_ptr<SecretBook> book_;
    Policy policy_;
    v1::InterceptorStatus status_;
    std::optional<rpc::Responder> starting_;  // answered when the values have come
    bool values_came_ = false;
    std::map<uint64_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace boxlite::net::tls
