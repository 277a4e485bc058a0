// The box's network as the supervisor sees it: the device in the machine, and the process at the other end of
// its frames, which is started here and asked over a connection of its own. When that process dies the box
// goes on without a network.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/event_loop.h"
#include "base/process.h"
#include "rpc/box.pb.h"
#include "rpc/channel.h"
#include "shim/rotating_file.h"
#include "virtio/net.h"

namespace boxlite::shim {

class Network {
  public:
    static constexpr uint64_t kLogBytes = 4 << 20;  // of each of the flow log's two files

    // Makes the device, before this process is confined. `log_path` is where the flow log goes.
    static Result<std::unique_ptr<Network>> make(base::EventLoop& loop, const v1::NetworkSpec& spec,
                                                 const std::string& log_path);
    ~Network();
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    virtio::Net& device() { return *device_; }

    // Starts the process. Its answer, or why there is none, comes to `ready`, once. `interceptor`: its end of
    // the socket to the process that looks into TLS, if the box has one.
    using Ready = std::function<void(const Result<void>&)>;
    // `proxies`: the file of the host's proxies, if it has any.
    Result<void> launch(const std::string& program, base::Fd interceptor, base::Fd proxies, Ready ready);
    // What the guest has to be told.
    v1::GuestNetwork guest() const;
    void complete(v1::ContainerSpec& container) const;

    // After `ready`.
    const v1::NetworkStatus& status() const { return status_; }
    // nullopt when the process is gone.
    void counters(std::function<void(std::optional<v1::NetworkCounters>)> done);

    void update(const v1::NetworkPolicy& policy, std::function<void(const Result<void>&)> done);

    // The process ends, after its last words for the log. Then `done` is called.
    void stop(std::function<void()> done);
    bool stopped() const { return !process_; }

  private:
    Network(base::EventLoop& loop, const v1::NetworkSpec& spec, RotatingFile log)
        : loop_(loop), spec_(spec), log_(std::move(log)) {}
    void write_flows(const rpc::RequestView& request, rpc::Responder responder);
    void ended();

    base::EventLoop& loop_;
    v1::NetworkSpec spec_;
    RotatingFile log_;
    std::vector<std::string> dns_search_;  // the host's
    base::Fd process_frames_;
    std::unique_ptr<virtio::Net> device_;
    std::optional<base::Process> process_;
    std::shared_ptr<rpc::Channel> control_;
    Ready ready_;
    v1::NetworkStatus status_;
    bool stopping_ = false;
    std::function<void()> stopped_;
};

}  // namespace boxlite::shim
