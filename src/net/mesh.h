// The links between the boxes of a private network: one socket between the netds of each two of them, which
// carries frames. They find each other in the network's folder, where each listens under its box's id:
//   .lock        held by one that joins
//   ID           its socket, SOCK_SEQPACKET
//   ID.member    who it is, a NetworkMember
// One that joins connects to all the others and says to each who it is, in the first message. All of this is
// done before it has read anything of its box, and it reaches no file afterwards; so what a box says of
// itself is true, whatever becomes of it later.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "net/frame_port.h"
#include "net/member.h"

namespace boxlite::net {

class Mesh {
  public:
    static constexpr size_t kMaxLinks = 256;

    struct Handlers {
        // Frames are as they came: nothing of them has been looked at.
        std::function<void(const Member& from, base::ByteView frame)> frame;
        // The other one is gone, and no longer found.
        std::function<void(const Member& member)> left;
    };
    // Waits for others that join. Sockets that nobody listens at are removed. kInvalidArgument when `self` is
    // damaged.
    static Result<std::unique_ptr<Mesh>> join(base::EventLoop& loop, const std::string& folder,
                                              const Member& self, Handlers handlers);
    ~Mesh();
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;

    const Member& self() const { return self_; }
    const Subnets& subnets() const { return subnets_; }
    // nullptr when there is no link to the one with that address.
    const Member* find(const IpAddress& address) const;
    // The members that have a link, by their addresses.
    std::vector<const Member*> members() const;
    // What the other one is too slow for is dropped.
    void send(const Member& to, base::ByteView frame);

  private:
    struct Link {
        std::unique_ptr<FramePort> port;
        std::optional<Member> member;  // once it has said who it is
        bool over = false;
    };

    Mesh(base::EventLoop& loop, const Member& self, Handlers handlers)
        : loop_(loop), self_(self), subnets_(Subnets::of(self.v4, self.v6)), handlers_(std::move(handlers)) {}
    Result<void> listen(const std::string& folder);
    Result<void> connect_to_others(const std::string& folder);
    Result<void> connect_to(const std::string& path);
    void accept();
    Link* add_link(base::Fd socket);
    void received(Link& link, base::ByteView frame);
    bool introduce(Link& link, Member member);
    void end(Link& link);

    base::EventLoop& loop_;
    const Member self_;
    const Subnets subnets_;
    Handlers handlers_;
    base::Fd listener_;
    std::list<Link> links_;
    std::map<IpAddress, Link*> by_address_;  // either
    // What is posted may run after this has gone.
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace boxlite::net
