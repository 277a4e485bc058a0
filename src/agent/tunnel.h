// One connection to a port of the container.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/stream.h"
#include "base/event_loop.h"
#include "rpc/channel.h"

namespace boxlite::agent {

class Tunnel {
  public:
    // It could not connect. May destroy the tunnel.
    using Failed = std::function<void()>;

    Tunnel(base::EventLoop& loop, uint16_t port) : loop_(loop), port_(port) {}
    Tunnel(const Tunnel&) = delete;
    Tunnel& operator=(const Tunnel&) = delete;
    ~Tunnel();

    // `responder` is answered when the connection is there, or when there will be none.
    void open(rpc::Responder responder, Failed failed);

    // kInvalidState while it is not open.
    void read(uint32_t max_bytes, rpc::Responder responder);
    void write(std::string data, bool close_after, rpc::Responder responder);

  private:
    // 127.0.0.1, then ::1: some servers listen on just one of them.
    void dial();
    void dialled();
    void refused(int error);
    Result<void> connected();
    void stop_dialling();

    base::EventLoop& loop_;
    const uint16_t port_;
    std::optional<rpc::Responder> opening_;
    Failed failed_;
    bool v6_ = false;
    base::Fd dialling_;
    base::EventLoop::TimerId timer_ = 0;
    std::optional<InputStream> in_;
    std::optional<OutputStream> out_;
};

}  // namespace boxlite::agent
