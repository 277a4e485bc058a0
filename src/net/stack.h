// The box's link partner: libslirp, which answers ARP, neighbour discovery and DHCP and ends the box's TCP
// connections. It believes that it dials them itself with system calls; those come here instead, and a
// Dialer decides what becomes of each. Of UDP
// only DHCP reaches it, of ICMP what is for its own addresses.
// Thread safety: the loop's thread; one object in a process.
#pragma once

#include <slirp/libslirp.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/event_loop.h"
#include "net/packet.h"

namespace boxlite::net {

class Dialer {
  public:
    virtual ~Dialer() = default;
    // The box wants a TCP connection, for which `fd` is a fresh non-blocking socket of the stack's. As
    // connect(2): 0, or -1 with errno, of which EINPROGRESS is the usual one and ECONNREFUSED a refusal.
    virtual int connect(int fd, const Endpoint& to) = 0;
    // A connection to a published port was accepted as `fd`.
    virtual void accepted(int fd) = 0;
    // The stack is about to close a socket of its own.
    virtual void closed(int fd) = 0;
    // Whether the stack is to wait with what it wants to know of this socket.
    virtual bool on_hold(int fd) = 0;
};

class Stack {
  public:
    // `send` carries frames to the box.
    Stack(base::EventLoop& loop, Dialer& dialer, const BoxInterface& box,
          std::function<void(base::ByteView)> send);
    ~Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

    Result<void> start();
    // A frame from the box; `ip` is what is in it, if anything.
    void input(base::ByteView frame, const IpPacket* ip);
    // Connections to `listener` become connections to that port of the box.
    Result<void> publish(base::Fd listener, uint16_t box_port);
    // Another socket has taken the number `fd`, or it is no more on hold.
    void renew(int fd);
    // False: nothing is read from the outside until it is true again.
    void let_read(bool on);

  private:
    friend class StackHooks;
    struct Callbacks;
    struct Watched {
        int events = 0;      // that the stack wants, SLIRP_POLL_*
        int ready = 0;       // that there are
        uint64_t round = 0;  // in which it wanted them
        uint32_t epoll = 0;  // that epoll looks for
        bool added = false;  // to epoll
    };

    void before_wait();
    int add_poll(int fd, int events);
    void sockets_ready();
    void drop_watch(int fd);
    void poll(bool sockets);
    void arm(uint32_t timeout_ms);
    Watched& watched(int fd);

    base::EventLoop& loop_;
    Dialer& dialer_;
    const BoxInterface box_;
    std::function<void(base::ByteView)> send_;
    Slirp* slirp_ = nullptr;
    base::Fd epoll_;
    std::vector<Watched> watched_;  // by descriptor
    uint64_t round_ = 0;
    bool stale_ = true;  // what epoll looks for, and the timer
    base::EventLoop::TimerId timer_ = 0;
    base::Clock::time_point timer_at_{};
    base::Clock::time_point active_at_{};  // the last frame or byte
    const IpPacket* current_ = nullptr;    // that the stack is looking at
    base::Fd to_publish_;
    int published_ = -1;
};

}  // namespace boxlite::net
