// The Tunnel service: connections to ports that programs in the container listen on. The agent shares the
// container's network, so it reaches them over loopback, whether the box has an interface or not.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/messages.h"
#include "agent/router.h"
#include "base/event_loop.h"

namespace boxlite::agent {

class Tunnel;

class Tunnels {
  public:
    explicit Tunnels(base::EventLoop& loop);
    Tunnels(const Tunnels&) = delete;
    Tunnels& operator=(const Tunnels&) = delete;
    ~Tunnels();

    void add_routes(Router& router);
    void close_all();

  private:
    void open(const v1::TunnelRequest& request, rpc::Responder responder);
    Result<void> begin(const v1::TunnelRequest& request, rpc::Responder& responder);
    Result<Tunnel*> find(const std::string& id);

    base::EventLoop& loop_;
    std::map<std::string, std::unique_ptr<Tunnel>> tunnels_;
};

}  // namespace boxlite::agent
