// Passing clients' requests on to the agent. Files and tunnels that a client has open there are closed when
// it is gone: the agent, to which all clients are one, cannot tell.
#include <algorithm>

#include "shim/supervisor.h"

namespace boxlite::shim {

namespace {

constexpr std::string_view kExecution = "boxlite.v1.Execution";
constexpr std::string_view kFiles = "boxlite.v1.Files";
constexpr std::string_view kTunnel = "boxlite.v1.Tunnel";

// Other requests belong to what runs already, and wait with it.
bool begins_work(const std::string& service, const std::string& method) {
    return service == kFiles || method == "Start" || (service == kTunnel && method == "Open");
}

}  // namespace

void Supervisor::forward(Forwarded request) {
    if (failure_) return request.responder.fail(*failure_);
    if (state_ == State::kPaused && begins_work(request.service, request.method))
        return request.responder.fail(
            base::make_error(ErrorCode::kInvalidState, "box '{}' is paused; unpause it first", spec_.name()));
    if (state_ == State::kOff || !agent_ || !agent_->open())
        return request.responder.fail(
            base::make_error(ErrorCode::kStopped, "the box is stopping: {}", end_reason_));
    if (v1::CloseFileRequest close;
        request.service == kFiles && request.method == "CloseFile" && close.ParseFromString(request.payload))
        std::erase_if(open_files_, [&](const auto& file) { return file.second == close.handle(); });
    const bool opens = request.service == kFiles && request.method == "Open";
    if (request.service == kTunnel && !note_tunnel(request)) return;
    const bool executes = request.service == kExecution && request.method == "Start";
    // A responder moves, a callback must be copyable.
    auto held = std::make_shared<rpc::Responder>(std::move(request.responder));
    agent_->call(request.service, request.method, request.payload, {},
                 [this, held, opens, executes, from = request.from](const Result<std::string_view>& answer) {
                     if (executes) ++(answer.ok() ? commands_executed_ : exec_errors_);
                     if (!answer.ok()) return held->fail(answer.error());
                     if (opens) file_opened(from, *answer);
                     held->reply(*answer);
                 });
}

void Supervisor::file_opened(const std::weak_ptr<rpc::Channel>& by, std::string_view answer) {
    v1::OpenResponse opened;
    if (!opened.ParseFromArray(answer.data(), static_cast<int>(answer.size()))) return;
    const auto client = by.lock();
    if (client && client->open())
        open_files_.emplace(client.get(), opened.handle());
    else
        close_file(opened.handle());
}

void Supervisor::close_file(uint64_t handle) {
    if (!agent_ || !agent_->open()) return;
    v1::CloseFileRequest request;
    request.set_handle(handle);
    agent_->call(std::string(kFiles), "CloseFile", request, {}, [](const Result<std::string_view>&) {});
}

void Supervisor::close_files_of(const rpc::Channel* client) {
    const auto [first, last] = open_files_.equal_range(client);
    for (auto file = first; file != last; ++file) close_file(file->second);
    open_files_.erase(first, last);
}

// False when the client has gone. Noted before the agent has opened it: a client that goes meanwhile must not
// leave it behind. To close one that did not come about is nothing.
bool Supervisor::note_tunnel(const Forwarded& request) {
    const auto client = request.from.lock();
    if (!client || !client->open()) return false;
    if (request.method != "Open" && request.method != "Close") return true;
    v1::ExecutionId tunnel;  // both have its id in field 1
    if (!tunnel.ParseFromString(request.payload)) return true;
    if (request.method == "Open")
        open_tunnels_.emplace(client.get(), tunnel.id());
    else
        std::erase_if(open_tunnels_, [&](const auto& open) { return open.second == tunnel.id(); });
    return true;
}

void Supervisor::close_tunnels_of(const rpc::Channel* client) {
    const auto [first, last] = open_tunnels_.equal_range(client);
    for (auto tunnel = first; agent_ && agent_->open() && tunnel != last; ++tunnel) {
        v1::ExecutionId request;
        request.set_id(tunnel->second);
        agent_->call(kTunnel, "Close", request, {}, [](const Result<std::string_view>&) {});
    }
    open_tunnels_.erase(first, last);
}

}  // namespace boxlite::shim
