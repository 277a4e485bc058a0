// A box: an isolated, stateful Linux machine with a kernel of its own, made from an OCI image.
//
// A Box is a handle. Its machine is started when it is first needed (exec, copy_into, copy_out) and belongs
// to a supervisor process, not to the handle: any number of handles in any number of processes may use one
// box at the same time. Files written in a box stay until it is removed.
//
// Thread safety: every call may be made from any thread at any time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "boxlite/execution.h"
#include "boxlite/options.h"
#include "boxlite/result.h"
#include "boxlite/tunnel.h"

namespace boxlite {

enum class BoxStatus {
    kConfigured,  // never started
    kRunning,
    kPaused,
    kStopping,
    kStopped,
    kFailed,   // the last start did not come up; `reason` says why
    kUnknown,  // being started or stopped by a process that does not get on with it
};

// "configured", "running", …
std::string_view box_status_name(BoxStatus status);

struct NetworkCounters {
    uint64_t sent_bytes = 0;  // by the box, in frames
    uint64_t received_bytes = 0;
    uint64_t open_flows = 0;
    uint64_t total_flows = 0;  // that were let through
    uint64_t refused = 0;      // connections, datagrams and names
};

// Times are nanoseconds since the Unix epoch, 0 when there is none.
struct BoxInfo {
    std::string id;
    std::string name;
    std::string image;         // as it was asked for
    std::string image_digest;  // of the image's config, "sha256:…"
    BoxStatus status = BoxStatus::kConfigured;
    int64_t created_at = 0;
    int64_t started_at = 0;
    int64_t finished_at = 0;
    int pid = 0;                   // of the supervisor, 0 when not running
    std::optional<int> exit_code;  // of the last run, as a shell reports it
    std::string reason;            // why the last run ended, where that is worth telling
    uint32_t cpus = 0;
    uint64_t memory_bytes = 0;
    uint64_t disk_bytes = 0;        // the size that the box sees
    std::string engine;             // "uml" or "kvm"
    std::string isolation;          // "software" or "hardware"
    std::string engine_reason;      // why the host gave no stronger one; empty: it did, or none was wanted
    std::string kernel;             // uname -r, while running
    uint32_t boot_ms = 0;           // of the last boot, while running
    std::string started_from;       // "boot", "template" or "snapshot", while running
    std::vector<std::string> jail;  // walls around the machine, and "missing: …" for those the host lacks
    std::vector<std::string> command;  // of the main process; empty: idles for execs
    Environment env;
    std::string working_dir;
    std::string user;
    std::string hostname;
    bool tty = false;
    bool stdin_open = false;
    bool auto_remove = false;
    bool detach = false;
    bool privileged = false;
    bool huge_pages = false;
    std::string folder;  // of the box in the home directory
    NetworkOptions network;
    std::string mac_address;      // "02:…"; empty without a network
    std::string private_address;  // on its private network, if it is on one
    std::string private_address6;
    std::vector<PortMapping> ports;  // as they are bound while it runs
    NetworkCounters traffic;         // of this run, while it runs
};

// What a running box uses, and has done in this run.
struct BoxStats {
    int64_t time_ns = 0;        // when, by a clock that only goes forward
    double cpu_percent = 0;     // of one processor, by the box's programs, over a while: see Box::stats()
    uint64_t cpu_ns = 0;        // that they have taken in all
    uint64_t memory_bytes = 0;  // in use by them, with what the box's kernel keeps for them
    uint64_t memory_limit_bytes = 0;
    uint64_t processes = 0;
    uint64_t commands_executed = 0;  // besides the main process
    uint64_t exec_errors = 0;        // commands that could not be started
    uint32_t boot_ms = 0;
    uint64_t disk_used_bytes = 0;
    uint64_t disk_total_bytes = 0;
    uint64_t disk_read_bytes = 0;  // by the box's kernel, so without what it still had in memory
    uint64_t disk_written_bytes = 0;
    bool has_network = false;  // else all below are 0
    uint64_t network_sent_bytes = 0;
    uint64_t network_received_bytes = 0;
    uint64_t tcp_connections = 0;  // open now
    uint64_t tcp_errors = 0;       // that the rules refused, or that did not come about
};

// Between two readings of one run.
double cpu_percent(const BoxStats& from, const BoxStats& to);

// A connection of the box that has ended, or that was refused; or a name that it was refused to resolve.
struct FlowRecord {
    std::string time;       // of its beginning, RFC 3339
    std::string protocol;   // "tcp", "udp", "icmp", "dns"
    std::string direction;  // "out", or "in": through a published port, or from its private network
    std::string name;       // as the box resolved it; "" for a bare address
    std::string address;
    uint16_t port = 0;
    bool allowed = false;
    std::string rule;  // that decided
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
    uint64_t duration_ms = 0;
    std::string error;  // why an allowed connection failed
};

// One piece of the main process's output.
struct LogEntry {
    Stream stream = Stream::kStdout;
    int64_t time = 0;  // nanoseconds since the Unix epoch
    std::string data;
    uint64_t missed = 0;  // about so many bytes before this piece are gone: see LogOptions::follow
};

struct LogOptions {
    // Go on until the main process has ended. The program is not slowed down: a reader that falls behind by
    // more than the log keeps (about 16 MiB) misses what was in between, and is told.
    bool follow = false;
    std::optional<uint64_t> tail;  // only so many last lines
};

struct CopyStats {
    uint64_t files = 0;  // entries of every type
    uint64_t bytes = 0;
    std::vector<std::string> skipped;  // devices and sockets, which stay where they are
};

struct SnapshotInfo {
    std::string name;
    int64_t created_at = 0;  // nanoseconds since the Unix epoch
    bool memory = false;
    uint64_t disk_bytes = 0;    // on the host, without what lies below in other snapshots and the image
    uint64_t memory_bytes = 0;  // on the host; what it shares with other snapshots is left out
    std::chrono::nanoseconds pause{0};  // how long the box stood still for it; only from create_snapshot()
};

class BoxImpl;

class Box {
  public:
    explicit Box(std::shared_ptr<BoxImpl> impl) : impl_(std::move(impl)) {}

    const std::string& id() const;
    const std::string& name() const;

    // What is true now: the supervisor is asked.
    Result<BoxInfo> info() const;

    // Returns when programs can be run; at once for a running box. kInvalidArgument when a secret has no
    // value.
    Result<void> start(const StartOptions& options = {});

    // Stop signal to the main process, SIGKILL after the grace, file systems synced. Success when already
    // stopped.
    Result<void> stop(const StopOptions& options = {});
    Result<void> restart(const StopOptions& stop_options = {});

    // Stops everything in the box where it is, until resume(): it takes no processor time and answers
    // nothing. exec, copy_into and copy_out are kInvalidState meanwhile; stop() works. Success when already
    // paused. kStopped: not running. kUnsupported: a uml box of the strict preset.
    Result<void> pause();
    // Success when not paused.
    Result<void> resume();

    // New boxes that go on from where this running one is: same programs, memory and files, from here on
    // apart. The box stands still for about a millisecond meanwhile. Each new one gets an id, a name, random
    // numbers, a machine id and the right time of its own, and the host name too unless one was chosen.
    // Programs started by exec find their standard streams closed there. All of them are made, or none.
    // kStopped: not running. kUnsupported: the uml engine cannot.
    Result<std::vector<Box>> fork(const ForkOptions& options = {});

    // Keeps the disk as it is under `name` (as a box's name), of a running box after the guest has written
    // out what it had in memory; with options.memory the machine too. The box goes on; it stands still for a
    // moment that does not grow with disk or memory. Snapshots are removed with their box.
    // kAlreadyExists; kStopped: memory of a box that does not run; kUnsupported: memory on the uml engine.
    Result<SnapshotInfo> create_snapshot(const std::string& name, const SnapshotOptions& options = {});
    // Oldest first.
    Result<std::vector<SnapshotInfo>> snapshots() const;
    // kNotFound.
    Result<void> remove_snapshot(const std::string& name);
    // The box becomes what it was then. When that fails it is as it was before. kNotFound; kInvalidState: the
    // box is running; kMetadata: the snapshot is damaged; kUnsupported: its memory was taken with another
    // kernel or on a processor that can do what this one cannot.
    Result<void> restore_snapshot(const std::string& name, const RestoreOptions& options = {});
    // A new box (`new_name` empty: a name is made up) that begins as this one was then. With options.memory
    // it runs and is another machine, as after fork(); else it is not started.
    Result<Box> new_box_from_snapshot(const std::string& name, const std::string& new_name = {},
                                      const RestoreOptions& options = {});

    // What the box uses. Takes the time of `window`, over which cpu_percent is measured; with 0 that is 0,
    // for callers that compare readings of their own. kStopped; kInvalidState while paused.
    Result<BoxStats> stats(std::chrono::milliseconds window = std::chrono::milliseconds(200)) const;

    // kStopped for a box with a main process that is not running: only start() runs it again. Other boxes are
    // started. kNotFound: no such program; kExecution: it cannot be executed.
    Result<Execution> exec(const Command& command);

    // Starts a box with a main process and connects to that from its first byte on, so that nothing is lost
    // of a program however short. Both streams must be read, as with pipes. kInvalidState when the box has no
    // main process or is running already.
    Result<Execution> run(const StartOptions& options = {});

    // The main process of a running box: output from its beginning (or from now on), input if it has a stdin.
    // kInvalidState when the box has none or is not running.
    Result<Execution> attach(bool from_beginning = true);

    // Blocks until the box is not running and returns how its main process ended; at once when it is not
    // running.
    Result<ExitStatus> wait();

    // Output of the main process's last run, oldest first, until `sink` returns false. Works on stopped
    // boxes.
    Result<void> logs(const LogOptions& options, const std::function<bool(const LogEntry&)>& sink);

    // What the box may connect to from now on, also while it runs; connections that the rules refuse are
    // ended. kInvalidState for a box without a network. On an error the rules stay as they were.
    Result<void> set_network_rules(const NetworkRules& rules);

    // The memory that the box has, in MiB, from its next start on and, where it runs, at once: it gives up
    // what it has beyond that, as far as its programs leave it free, and can have it back. A running box
    // grows to no more than it was started with. kUnsupported for a running box of the uml engine.
    Result<void> set_memory(uint32_t mib);

    // Other values for secrets of a running box, for requests from now on. kNotFound for a name that is none
    // of the box's secrets; kStopped. On an error all stay as they were.
    Result<void> set_secrets(const std::vector<SecretValue>& values);

    // What the box's network did in its last run, oldest first, until `sink` returns false; with `follow`,
    // until the box stops. About the last 8 MiB are kept.
    Result<void> network_log(const LogOptions& options, const std::function<bool(const FlowRecord&)>& sink);

    // A connection to a TCP port that a program in the running box listens on, at the box's loopback
    // addresses; the port need not be published. kNetwork: nothing listens there; kStopped.
    Result<Tunnel> tunnel(uint16_t port);

    // Docker's rules for the destination: a directory that exists takes the source under its own name, else
    // the source becomes the destination. A stopped box is started for the copy and stopped afterwards. Links
    // are copied, never followed, on either side: nothing is written outside of the destination.
    Result<CopyStats> copy_into(const std::string& host_path, const std::string& box_path,
                                const CopyOptions& options = {});
    Result<CopyStats> copy_out(const std::string& box_path, const std::string& host_path,
                               const CopyOptions& options = {});

  private:
    friend class Runtime;
    std::shared_ptr<BoxImpl> impl_;
};

}  // namespace boxlite
