// Messages with descriptors between two processes, over a SOCK_SEQPACKET socket on an event loop. What the
// other side does not take yet waits here. Thread safety: the loop's thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/event_loop.h"

namespace boxlite::net {

class PacketSocket {
  public:
    static constexpr size_t kMaxMessage = 4096;  // longer ones arrive cut

    struct Handlers {
        std::function<void(base::ByteView message, std::vector<base::Fd> descriptors)> received;
        // The other side is gone. Once.
        std::function<void()> closed;
    };
    static Result<std::unique_ptr<PacketSocket>> make(base::EventLoop& loop, base::Fd socket,
                                                      Handlers handlers);
    ~PacketSocket();
    PacketSocket(const PacketSocket&) = delete;
    PacketSocket& operator=(const PacketSocket&) = delete;

    // Precondition: `message` is not empty. Nothing happens when the other side is gone.
    void send(std::string message, std::vector<base::Fd> descriptors = {});
    // Messages that wait.
    size_t waiting() const { return queue_.size(); }
    bool open() const { return socket_.valid(); }

  private:
    struct Message {
        std::string bytes;
        std::vector<base::Fd> descriptors;
    };
    PacketSocket(base::EventLoop& loop, base::Fd socket, Handlers handlers)
        : loop_(loop), socket_(std::move(socket)), handlers_(std::move(handlers)) {}
    void ready();
    void flush();
    void close();

    base::EventLoop& loop_;
    base::Fd socket_;
    Handlers handlers_;
    std::deque<Message> queue_;
};

}  // namespace boxlite::net
