// The box's place in a private network. netd stands between: each packet from the box to another one is
// looked at, held against the rules and handed to that one's netd, which looks at it again. To the box all of
// the others are behind the gateway's station.
// Thread safety: the loop's thread.
#pragma once

#include "net/mesh.h"
#include "net/peer_flows.h"

namespace boxlite::net {

class PrivateNetwork {
  public:
    // `send` carries frames to the box. See Mesh::join(), and PeerFlows for the others.
    static Result<std::unique_ptr<PrivateNetwork>> join(base::EventLoop& loop, const v1::PrivateNetwork& spec,
                                                        const Policy& policy, FlowLog& log,
                                                        std::function<void(base::ByteView)> send);

    // A frame from the box, and what is in it, if anything. False: it is not this network's business.
    bool take(base::ByteView frame, const IpPacket* ip);

    // The box with that name, this one too; else none.
    std::vector<IpAddress> addresses(const std::string& host) const;
    // "": nobody's.
    std::string name_of(const IpAddress& address) const;

    // Ends what the rules refuse by now.
    void recheck() { flows_->recheck(); }

  private:
    PrivateNetwork(std::string name, std::function<void(base::ByteView)> send)
        : name_(std::move(name)), send_(std::move(send)) {}
    void route(base::ByteView frame, const IpPacket& ip);
    void refuse(const IpPacket& ip, const PeerPacket& packet);
    void receive(const Member& from, base::ByteView frame);

    const std::string name_;
    const std::function<void(base::ByteView)> send_;
    FlowLog* log_ = nullptr;
    std::unique_ptr<PeerFlows> flows_;
    std::unique_ptr<Mesh> mesh_;
};

}  // namespace boxlite::net
