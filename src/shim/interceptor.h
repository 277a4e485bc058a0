// The process that looks into the box's TLS connections and has the values of its secrets, as the supervisor
// sees it: started before the guest is set up, which gets its certificate authority. The values do not come
// through here. When it dies the box goes on, and connections that have to be looked into are refused. Thread
// safety: the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/event_loop.h"
#include "base/process.h"
#include "rpc/box.pb.h"
#include "rpc/channel.h"

namespace boxlite::shim {

class Interceptor {
  public:
    // Its answer, or why there is none, comes to `ready`, once: after the secrets have got their values.
    using Ready = std::function<void(const Result<void>&)>;
    // Starts it, before this process is confined. `secrets_socket`: where it listens for values.
    static Result<std::unique_ptr<Interceptor>> launch(base::EventLoop& loop, const std::string& program,
                                                       const v1::NetworkSpec& spec,
                                                       const std::string& secrets_socket, Ready ready);
    ~Interceptor();
    Interceptor(const Interceptor&) = delete;
    Interceptor& operator=(const Interceptor&) = delete;

    // The network process's end of their socket. Once.
    base::Fd take_channel() { return std::move(channel_); }
    // After `ready`.
    const v1::InterceptorStatus& status() const { return status_; }

    void update(const v1::NetworkPolicy& policy, std::function<void(const Result<void>&)> done);

  private:
    explicit Interceptor(base::EventLoop& loop) : loop_(loop) {}
    void ended();

    base::EventLoop& loop_;
    base::Fd channel_;
    std::optional<base::Process> process_;
    std::shared_ptr<rpc::Channel> control_;
    Ready ready_;
    v1::InterceptorStatus status_;
};

}  // namespace boxlite::shim
