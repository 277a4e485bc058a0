// One connection that is looked into: TLS with the server first, which has to prove that it is who the box
// asks for, then TLS with the box, as that server, then what they say to each other. Thread safety: the
// loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/event_loop.h"
#include "net/tls/authority.h"
#include "net/tls/contexts.h"
#include "net/tls/conversation.h"
#include "net/tls/guard.h"
#include "net/tls/stream.h"

namespace boxlite::net::tls {

class Session {
  public:
    struct World {
        base::EventLoop& loop;
        const Contexts& contexts;
        Authority& authority;
    };
    // `over` is called once, from the loop; the session may be destroyed in it.
    static Result<std::unique_ptr<Session>> start(World world, Guard guard, base::Fd inside, base::Fd outside,
                                                  std::function<void()> over);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // For SSL_CTX of the side to the box.
    static void prepare(SSL_CTX* context);

  private:
    enum class Phase { kHello, kServer, kBox, kTalk, kDrain, kOver };
    struct Callbacks;
    struct Side {
        std::optional<Stream> stream;
        bool ended = false;  // it sends no more
        bool gone = false;   // epoll has nothing more to say of it
        uint32_t events = 0;
    };

    Session(World world, Guard guard, base::Fd outside, std::function<void()> over)
        : world_(world), guard_(std::move(guard)), outside_(std::move(outside)), over_(std::move(over)) {}
    void ready(Side& side, uint32_t events);
    void run();
    bool begin();
    bool hear_hello();
    bool greet_server();
    bool greet_box();
    void start_talking();
    void talk();
    bool read(Side& side);
    bool write(Side& side);
    void drain();
    void watch(Side& side, uint32_t events);
    void update_watches();
    void refuse(const std::string& why);
    void end();

    World world_;
    Guard guard_;
    base::Fd outside_;  // until TLS begins on it
    std::function<void()> over_;
    Side box_, server_;
    Phase phase_ = Phase::kHello;
    bool hello_seen_ = false;
    bool refused_ = false;
    std::string offered_;  // protocols, of those that we know
    bool other_protocols_ = false;
    std::unique_ptr<Conversation> conversation_;
    base::EventLoop::TimerId timer_ = 0;
};

}  // namespace boxlite::net::tls
