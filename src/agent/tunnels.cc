#include "agent/tunnels.h"

#include "agent/tunnel.h"

namespace boxlite::agent {

namespace {

constexpr std::string_view kService = "boxlite.v1.Tunnel";
constexpr size_t kMaxIdLength = 64;
constexpr size_t kMaxTunnels = 1024;

}  // namespace

Tunnels::Tunnels(base::EventLoop& loop) : loop_(loop) {}

Tunnels::~Tunnels() = default;

void Tunnels::add_routes(Router& router) {
    router.add<v1::TunnelRequest>(kService, "Open",
                                  [this](const v1::TunnelRequest& request, rpc::Responder responder) {
                                      open(request, std::move(responder));
                                  });
    router.add<v1::ReadRequest>(kService, "Read",
                                [this](const v1::ReadRequest& request, rpc::Responder responder) {
                                    const auto tunnel = find(request.id());
                                    if (tunnel)
                                        (*tunnel)->read(request.max_bytes(), std::move(responder));
                                    else
                                        responder.fail(tunnel.error());
                                });
    router.add<v1::WriteRequest>(
        kService, "Write", [this](v1::WriteRequest request, rpc::Responder responder) {
            const auto tunnel = find(request.id());
            if (tunnel)
                (*tunnel)->write(std::move(*request.mutable_data()), request.close(), std::move(responder));
            else
                responder.fail(tunnel.error());
        });
    router.add<v1::ExecutionId>(kService, "Close",
                                [this](const v1::ExecutionId& request, rpc::Responder responder) {
                                    tunnels_.erase(request.id());
                                    responder.reply(std::string_view());
                                });
}

void Tunnels::close_all() {
    tunnels_.clear();
}

void Tunnels::open(const v1::TunnelRequest& request, rpc::Responder responder) {
    if (const auto begun = begin(request, responder); !begun) responder.fail(begun.error());
}

// Takes `responder` on success.
Result<void> Tunnels::begin(const v1::TunnelRequest& request, rpc::Responder& responder) {
    const std::string& id = request.id();
    if (id.empty() || id.size() > kMaxIdLength)
        return base::make_error(ErrorCode::kInvalidArgument, "a tunnel's id has 1 to {} characters",
                                kMaxIdLength);
    if (request.port() == 0 || request.port() > UINT16_MAX)
        return base::make_error(ErrorCode::kInvalidArgument, "there is no port {}; 1 to 65535 are ports",
                                request.port());
    if (tunnels_.contains(id))
        return base::make_error(ErrorCode::kAlreadyExists, "there is a tunnel '{}'", id);
    if (tunnels_.size() >= kMaxTunnels)
        return base::make_error(ErrorCode::kResourceExhausted, "{} tunnels are open; close some",
                                kMaxTunnels);
    Tunnel& tunnel = *(tunnels_[id] = std::make_unique<Tunnel>(loop_, static_cast<uint16_t>(request.port())));
    tunnel.open(std::move(responder), [this, id] { tunnels_.erase(id); });
    return {};
}

Result<Tunnel*> Tunnels::find(const std::string& id) {
    const auto it = tunnels_.find(id);
    if (it == tunnels_.end()) return base::make_error(ErrorCode::kNotFound, "there is no tunnel '{}'", id);
    return it->second.get();
}

}  // namespace boxlite::agent
