// The process that looks into the box's TLS connections (boxlite-tlsd), as netd sees it: it gets connections,
// and says what it refused on them. When it is gone, connections that it would have to look into are refused.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "net/packet_socket.h"

namespace boxlite::net {

class Interceptor {
  public:
    static constexpr size_t kMaxConnections = 4096;
    using Refused = std::function<void(const std::string& rule)>;

    // `channel`: a SOCK_SEQPACKET socket to it.
    static Result<std::unique_ptr<Interceptor>> make(base::EventLoop& loop, base::Fd channel);
    Interceptor(const Interceptor&) = delete;
    Interceptor& operator=(const Interceptor&) = delete;

    // Hands over a connection that begins with TLS for `host`: its end to the box, and another descriptor of
    // the one to the server, which is connected. `by_request`: each request needs a rule that allows it.
    // `refused` is called any number of times, also after the connection has ended.
    Result<void> take(const std::string& host, uint16_t port, bool by_request, base::Fd inside,
                      const base::Fd& outside, Refused refused);

  private:
    Interceptor() = default;
    void receive(base::ByteView message);

    std::unique_ptr<PacketSocket> socket_;
    uint64_t next_id_ = 1;
    std::map<uint64_t, Refused> open_;
};

}  // namespace boxlite::net
