// One box's supervisor: boots the machine, serves clients on the box's socket, passes their calls to the
// agent, and writes down how it ended. One loop thread; the machine's devices have threads of their own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/file.h"
#include "engine/engine.h"
#include "rpc/box.pb.h"
#include "rpc/channel.h"
#include "shim/console_log.h"
#include "shim/interceptor.h"
#include "shim/main_output.h"
#include "shim/network.h"
#include "virtio/balloon.h"
#include "virtio/block.h"
#include "virtio/rng.h"
#include "virtio/vsock.h"

namespace boxlite::shim {

class Supervisor {
  public:
    // Takes the box's lock, opens its disk and socket and starts the machine. After this, clients can
    // connect. `lifeline` is watched unless the box is detached. `memory`: the layers of spec.machine(), and
    // the file of the host's proxies behind them if spec.network() has any.
    static Result<std::unique_ptr<Supervisor>> start(base::EventLoop& loop, v1::BoxSpec spec,
                                                     base::Fd lifeline, std::vector<base::Fd> memory);
    ~Supervisor();

    // Shuts the box down in order, as Stop with that grace does. Idempotent.
    void stop(uint32_t grace_ms, const std::string& reason);

  private:
    enum class State { kStarting, kRunning, kPaused, kStopping, kOff };
    using Connection = std::shared_ptr<rpc::Channel>;

    Supervisor(base::EventLoop& loop, v1::BoxSpec spec, base::Fd lifeline)
        : loop_(loop), spec_(std::move(spec)), lifeline_(std::move(lifeline)) {}

    // boot.cc
    Result<void> boot(std::vector<base::Fd> memory);
    // Whether the machine has been a box before it came here.
    bool resumes() const { return spec_.has_machine() && !spec_.fresh_machine(); }
    void check_boot();
    Result<void> open_disk(const std::string& path);
    Result<void> start_machine(std::vector<base::Fd> memory);
    Result<void> start_network();
    void network_ready(const Result<void>& outcome);
    void interceptor_ready(const Result<void>& outcome);
    v1::Trust trust() const;
    Result<void> confine(const engine::MachineProcesses& machine);
    void agent_connected(base::Fd stream);
    void set_up_guest();
    void resume_guest();
    void guest_ready(Result<std::string_view> answer);
    void start_main();
    void follow_main();
    void become_running();
    void fail_boot(Error error);

    // shutdown.cc
    void shut_down_guest(uint32_t grace_ms);
    void main_ended(const v1::ExitStatus& status);
    void stop_after_main();
    void machine_ended(const engine::MachineExit& exit);
    void power_off();
    void finish();
    void leave();
    // Takes the exit record's room on the disk, which may be full when the box ends.
    Result<void> reserve_exit_record();
    Result<void> fill_exit_record(std::string text) const;
    void write_exit_record() const;

    // pause.cc
    Result<void> pause();
    // First asks what its guest uses, so that stats() can tell while it is paused.
    void pause_on_request(rpc::Responder responder);
    Result<void> resume();
    Result<void> set_memory(uint32_t mib);

    // capture.cc
    void capture(const v1::CaptureRequest& request, rpc::Responder responder);
    void answer_capture(const v1::CaptureRequest& request, rpc::Responder responder);
    Result<v1::CaptureResponse> capture_now(const v1::CaptureRequest& request);
    Result<void> swap_disk(const std::string& layer);

    // stats.cc
    void stats(rpc::Responder responder);
    void ask_guest(std::chrono::milliseconds budget, std::function<void(const Result<v1::GuestStats>&)> done);
    void answer_stats(const v1::GuestStats& guest, const std::shared_ptr<rpc::Responder>& responder);

    // control.cc
    Result<void> listen();
    void accept_clients();
    void handle(const Connection& connection, const rpc::RequestView& request, rpc::Responder responder);
    void handle_box(const Connection& connection, const rpc::RequestView& request, rpc::Responder responder);
    void update_network(const v1::NetworkPolicy& policy, rpc::Responder responder);
    void handle_main(const rpc::RequestView& request, rpc::Responder responder);
    v1::BoxStatus status() const;
    void inspect(rpc::Responder responder);
    void answer_waiters();

    // forward.cc
    // A client's request to the agent.
    struct Forwarded {
        std::weak_ptr<rpc::Channel> from;
        std::string service, method, payload;
        rpc::Responder responder;
    };
    void forward(Forwarded request);
    void file_opened(const std::weak_ptr<rpc::Channel>& by, std::string_view answer);
    void close_file(uint64_t handle);
    void close_files_of(const rpc::Channel* client);
    bool note_tunnel(const Forwarded& request);
    void close_tunnels_of(const rpc::Channel* client);

    base::EventLoop& loop_;
    v1::BoxSpec spec_;
    base::Fd lifeline_;
    std::optional<base::FileLock> lock_;
    base::Fd exit_record_;
    base::Fd listener_;
    std::vector<Connection> clients_;
    std::set<const rpc::Channel*> users_;  // clients with an execution, a copy or a log in hand
    std::multimap<const rpc::Channel*, uint64_t>
        open_files_;  // of each client, by their handles in the agent
    std::multimap<const rpc::Channel*, std::string> open_tunnels_;  // likewise, by their ids

    std::optional<v1::GuestStats> guest_at_pause_;
    uint64_t commands_executed_ = 0;
    uint64_t exec_errors_ = 0;

    State state_ = State::kStarting;
    int64_t started_at_ns_ = 0;
    base::Clock::time_point boot_began_;
    std::chrono::nanoseconds boot_processor_time_{0};  // when last looked at
    uint32_t boot_ms_ = 0;
    std::string kernel_release_;
    std::string end_reason_;
    std::optional<Error> failure_;
    std::optional<v1::ExitStatus> main_exit_;

    std::optional<ConsoleLog> console_;
    std::unique_ptr<MainOutput> output_;
    std::unique_ptr<virtio::Block> disk_;
    virtio::Vsock vsock_;
    virtio::Rng rng_;
    virtio::Balloon balloon_;
    std::unique_ptr<Network> network_;  // none for a box without
    bool network_pending_ = false;
    base::Fd proxies_;                          // until its process has it
    std::unique_ptr<Interceptor> interceptor_;  // none for a box without secrets and rules about https
    bool interceptor_pending_ = false;
    bool guest_up_ = false;
    std::unique_ptr<engine::Machine> machine_;
    jail::JailReport own_jail_;
    std::shared_ptr<rpc::Channel> agent_;
    base::EventLoop::TimerId boot_timer_ = 0;
    base::EventLoop::TimerId linger_timer_ = 0;

    // Requests that wait: for the guest to be up, for the main process to end, for the machine to be off.
    std::vector<Forwarded> held_;
    std::vector<rpc::Responder> ready_waiters_;
    std::vector<rpc::Responder> main_waiters_;
    std::vector<rpc::Responder> stop_waiters_;
};

}  // namespace boxlite::shim
