#include "agent/guest.h"

#include "agent/disk.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/trust.h"

namespace boxlite::agent {

namespace {

constexpr std::string_view kService = "boxlite.v1.Guest";
constexpr const char* kDisk = "/box";
constexpr const char* kSysBlock = "/sys/block";

v1::SetupResponse describe_guest() {
    v1::SetupResponse response;
    response.set_kernel(kernel_release());
    response.set_memory_bytes(memory_bytes());
    return response;
}

}  // namespace

Guest::Guest(base::EventLoop& loop) : executions_(loop), files_(loop), tunnels_(loop) {
    router_.add<v1::SetupRequest>(kService, "Setup",
                                  [this](const v1::SetupRequest& request, rpc::Responder responder) {
                                      answer(responder, setup(request));
                                  });
    router_.add<v1::ShutdownRequest>(
        kService, "Shutdown", [this](const v1::ShutdownRequest& request, rpc::Responder responder) {
            auto held = std::make_shared<rpc::Responder>(std::move(responder));
            shutdown(std::chrono::milliseconds(request.grace_ms()),
                     [held](const Result<void>& outcome) { answer(*held, outcome); });
        });
    router_.add<v1::Empty>(kService, "Stats", [this](const v1::Empty&, rpc::Responder responder) {
        answer(responder, stats());
    });
    router_.add<v1::ResumeRequest>(kService, "Resume",
                                   [this](const v1::ResumeRequest& request, rpc::Responder responder) {
                                       answer(responder, resume(request));
                                   });
    router_.add<v1::Empty>(kService, "Freeze", [](const v1::Empty&, rpc::Responder responder) {
        answer(responder, freeze_disk(kDisk));
    });
    router_.add<v1::Empty>(kService, "Thaw", [](const v1::Empty&, rpc::Responder responder) {
        answer(responder, thaw_disk(kDisk));
    });
    executions_.add_routes(router_);
    files_.add_routes(router_);
    tunnels_.add_routes(router_);
}

Result<v1::SetupResponse> Guest::setup(const v1::SetupRequest& request) {
    if (std::exchange(setup_called_, true))
        return base::make_error(ErrorCode::kInvalidState, "Setup has been called before");
    if (request.realtime_ns()) TRY(set_clock(request.realtime_ns()));
    // The machine may be a template's, of which there are others.
    if (!request.entropy().empty()) {
        TRY(add_entropy(request.entropy()));
        TRY(reseed());
    }
    if (request.has_network()) TRY(set_up_network(request.network()));
    const uint64_t device = TRY(find_disk(request.disk_serial(), kSysBlock));
    TRY(mount_disk(device, kDisk, request.disk_bytes()));
    const base::Fd cgroups = TRY(open_cgroups());
    container_ = TRY(Container::create(kDisk, request.container(), cgroups));
    TRY_CONTEXT(set_trust(container_->root(), request.container().trust()), "add certificate authorities");
    files_.use(container_->root());
    TRY(executions_.use(*container_, request.idle_init()));
    return describe_guest();
}

Result<v1::SetupResponse> Guest::resume(const v1::ResumeRequest& request) {
    if (!container_) return base::make_error(ErrorCode::kInvalidState, "there is no container to resume");
    // First, so that nothing below is the same in two guests.
    TRY(add_entropy(request.entropy()));
    TRY(reseed());
    TRY(set_clock(request.realtime_ns()));
    if (request.has_network()) TRY(set_up_network(request.network()));
    TRY(container_->rename(request.hostname(), request.machine_id()));
    TRY_CONTEXT(set_trust(container_->root(), request.trust()), "add certificate authorities");
    return describe_guest();
}

void Guest::host_lost() {
    executions_.host_lost();
    files_.close_handles();
    tunnels_.close_all();
}

void Guest::shutdown(std::chrono::milliseconds grace, std::function<void(Result<void>)> done) {
    executions_.terminate(grace, [this, done = std::move(done)] { done(leave()); });
}

Result<void> Guest::leave() {
    if (left_) return *left_;
    files_.close();
    container_.reset();
    left_ = leave_disk(kDisk);
    return *left_;
}

void Guest::abandon(std::function<void()> done) {
    shutdown(std::chrono::milliseconds(0), [done = std::move(done)](const Result<void>&) { done(); });
}

Result<v1::GuestStats> Guest::stats() const {
    if (!container_) return base::make_error(ErrorCode::kInvalidState, "there is no container");
    return read_stats(container_->cgroup_fd(), kDisk);
}

}  // namespace boxlite::agent
