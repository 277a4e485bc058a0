// A box's supervisor process, boxlite-shim, as its clients see it: started, asked and waited for through
// nothing but the box's folder. Not thread safe unless said.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/process.h"
#include "rpc/box.pb.h"
#include "rpc/client.h"
#include "runtime/home.h"

namespace boxlite::runtime {

inline constexpr std::string_view kBoxService = "boxlite.v1.Box";
inline constexpr std::string_view kExecutionService = "boxlite.v1.Execution";
inline constexpr std::string_view kFilesService = "boxlite.v1.Files";
inline constexpr std::string_view kMainExecution = "main";

// A connection to a living supervisor, together with the process at its other end.
struct Connection {
    rpc::Client client;
    pid_t pid;       // of the supervisor
    base::Fd pidfd;  // readable when it has ended
};

// kPortal when nobody answers. Thread safe.
Result<Connection> connect_supervisor(const BoxFolder& folder);
// Only the calls, for one lane of an execution or a copy. Thread safe.
Result<rpc::Client> connect_client(const BoxFolder& folder);

// Whether the process at the other end ended in time.
Result<bool> wait_for_end(const Connection& connection, std::chrono::milliseconds budget);
// Waits for ever.
Result<void> wait_for_end(const Connection& connection);

// Whether a supervisor holds the box, answering or not.
// The caller holds the change lock: a supervisor takes its lock only while its starter does.
Result<bool> supervisor_exists(const BoxFolder& folder);
// Waits for a supervisor that does not answer any more to end. Same condition. kInvalidState when it stays.
Result<void> wait_until_gone(const BoxFolder& folder, std::chrono::milliseconds budget);

// Puts away what a supervisor that was killed could not. Nothing to do after one that ended by itself.
// The caller holds the change lock and there is no supervisor.
void remove_leftovers(const std::string& box_id, const BoxFolder& folder);

// What a supervisor wrote when it ended.
struct ExitRecord {
    int code = 0;
    int signal = 0;
    std::string reason;
    bool failed = false;      // the guest did not come up
    int64_t finished_at = 0;  // ns since the epoch
    int shell_code() const { return signal ? 128 + signal : code; }
};
// nullopt when there is none (the supervisor was killed), or when what is there is damaged.
std::optional<ExitRecord> read_exit_record(const BoxFolder& folder);

// The one line that the supervisor's program prints: "ok", or "error <code> <message>", which is returned.
Result<void> parse_greeting(std::string_view line);

struct Launched {
    base::Process process;
    // For a box that is not detached: the box ends when this is closed.
    base::Fd lifeline;
};
// What a supervisor gets open, beside its specification.
struct Handover {
    // The box's change lock, which the caller holds. The supervisor keeps it until it answers, so that nobody
    // comes in between when the caller is killed.
    const base::FileLock& changes;
    const std::vector<base::Fd>& memory;  // the files of the specification's machine
    const base::Fd& proxies;              // see host_proxies()
};
// Starts the supervisor and returns when it answers on its socket; the guest is then still booting.
// The caller has made sure that there is no other one.
Result<Launched> launch_supervisor(const std::string& program, const BoxFolder& folder,
                                   const v1::BoxSpec& spec, const Handover& handover);

}  // namespace boxlite::runtime
