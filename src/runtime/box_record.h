// What the state database keeps of a box: a configuration, of which only the network's rules change after its
// creation, and a state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "boxlite/box.h"

namespace boxlite::runtime {

// A secret without its value, which is never written down.
struct SecretRecord {
    std::string name;
    std::string placeholder;
    std::vector<std::string> hosts;
    bool in_query = false;
    std::string env;  // see Secret
    std::string file;
};

struct BoxConfig {
    std::string id;
    std::string name;
    int64_t created_at = 0;  // ns since the epoch
    std::string image;       // as it was asked for
    std::string image_id;    // config digest
    std::string base;        // under the disk; the name of its file
    uint32_t cpus = 1;
    uint32_t memory_mib = 1024;
    uint64_t disk_bytes = 0;
    std::string engine;
    std::string isolation;
    std::string engine_reason;  // see BoxInfo
    bool engine_fixed = false;  // the user asked for it: another start does not choose again
    bool strict = false;
    std::vector<std::string> env;  // NAME=value, image and options merged
    std::string working_dir;       // absolute
    std::string user;
    std::string hostname;
    std::vector<std::string> argv;  // of the main process; empty: none
    int stop_signal = 15;
    bool tty = false;
    bool stdin_open = false;
    std::vector<std::string> cap_add;
    std::vector<std::string> cap_drop;
    bool privileged = false;
    bool huge_pages = false;
    bool network = false;         // boxes of before there was one have none
    std::string private_network;  // its name; "": none
    std::string private_address;  // in there, given out by the state database
    std::string private_address6;
    bool has_allow_net = false;
    std::vector<std::string> allow_net;
    std::vector<std::string> deny_net;
    std::vector<std::string> ports;  // see ports.h
    uint32_t send_kbps = 0;
    uint32_t receive_kbps = 0;
    std::vector<SecretRecord> secrets;
    bool trust_host_ca = false;
    bool detach = false;
    bool auto_remove = false;

    bool is_job() const { return !argv.empty(); }
};

// As it was when somebody last looked. The truth about a running box is its supervisor.
struct BoxState {
    BoxStatus status = BoxStatus::kConfigured;
    int64_t started_at = 0;
    int64_t finished_at = 0;
    std::optional<int> exit_code;
    std::string reason;
    std::string boot_id;  // the host's, at the last start

    bool operator==(const BoxState&) const = default;
};

struct BoxRecord {
    BoxConfig config;
    BoxState state;
};

std::string encode(const BoxConfig& config);
std::string encode(const BoxState& state);
// kMetadata when the text is not what encode() wrote. Unknown members are passed over: an older release may
// read what a newer one of the same schema wrote.
Result<BoxConfig> decode_config(const std::string& text);
Result<BoxState> decode_state(const std::string& text);

}  // namespace boxlite::runtime
