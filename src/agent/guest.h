// The Guest service: from a fresh machine to a container, and back to a clean disk. Owns the other services.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "agent/container.h"
#include "agent/executions.h"
#include "agent/files.h"
#include "agent/messages.h"
#include "agent/router.h"
#include "agent/tunnels.h"
#include "base/event_loop.h"

namespace boxlite::agent {

class Guest {
  public:
    explicit Guest(base::EventLoop& loop);
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

    // As a channel's request handler.
    void dispatch(const rpc::RequestView& request, rpc::Responder responder) {
        router_.dispatch(request, std::move(responder));
    }

    // The connection is lost, and a new one may come: what the old one's requests wait for will not be told.
    void host_lost();
    // Whether the guest has shut down, after which it needs no host.
    bool left() const { return left_.has_value(); }

    // For when the host is gone: everything is killed, and the disk left clean before `done` is called.
    void abandon(std::function<void()> done);

  private:
    Result<v1::SetupResponse> setup(const v1::SetupRequest& request);
    void shutdown(std::chrono::milliseconds grace, std::function<void(Result<void>)> done);
    Result<void> leave();
    Result<v1::GuestStats> stats() const;
    Result<v1::SetupResponse> resume(const v1::ResumeRequest& request);

    Router router_;
    std::unique_ptr<Container> container_;
    Executions executions_;
    Files files_;
    Tunnels tunnels_;
    bool setup_called_ = false;
    std::optional<Result<void>> left_;
};

}  // namespace boxlite::agent
