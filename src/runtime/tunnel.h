// What a Tunnel handle refers to: two connections to the box's supervisor, one for each direction. The box's
// end is closed when the reading one is.
#pragma once

#include <mutex>
#include <string>

#include "boxlite/tunnel.h"
#include "runtime/box_impl.h"

namespace boxlite {

class TunnelImpl {
  public:
    static Result<std::shared_ptr<TunnelImpl>> open(std::shared_ptr<const BoxImpl> box, uint16_t port);

    Result<std::string> read(size_t max_bytes);
    Result<void> write(std::string_view data, bool close);
    void disconnect();

  private:
    struct Lane {
        explicit Lane(rpc::Client connected, base::Fd own)
            : client(std::move(connected)), socket(std::move(own)) {}
        std::mutex mutex;
        rpc::Client client;
        base::Fd socket;  // the client's, for disconnect(): the client may close its own
    };
    TunnelImpl(std::shared_ptr<const BoxImpl> box, std::string id)
        : box_(std::move(box)), id_(std::move(id)) {}

    const std::shared_ptr<const BoxImpl> box_;  // keeps the lifeline of a box that is not detached
    const std::string id_;
    std::optional<Lane> reading_;
    std::optional<Lane> writing_;
};

}  // namespace boxlite
