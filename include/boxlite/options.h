// What a caller may ask for: of a runtime, of a new box, of one command.
// Thread safety: values; share nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace boxlite {

// NAME and value of environment variables, in order; a later NAME wins.
using Environment = std::vector<std::pair<std::string, std::string>>;

// One image registry and how to talk to it.
struct Registry {
    std::string host;          // "ghcr.io", "127.0.0.1:5000"
    bool http = false;         // plain HTTP; loopback hosts always may use it
    bool skip_verify = false;  // accept any TLS certificate
    bool search = false;       // tried, in order, for image names without a registry
    std::string username;      // basic authentication; empty: ~/.docker/config.json decides
    std::string password;
    std::string bearer_token;
    std::vector<std::string> mirrors;  // hosts asked before this one
};

struct RuntimeOptions {
    // Absolute or relative folder of all state, made (0700) when missing.
    // Empty: $BOXLITE_HOME, else ~/.boxlite.
    std::string home;
    std::vector<Registry> registries;
    // Gets what a user may want to know and no result tells, a sentence at a time: for instance why a host
    // with /dev/kvm runs boxes without it. Called on the thread of the call that found it out.
    std::function<void(const std::string&)> notice;
};

enum class PullPolicy {
    kMissing,  // only when the image is not in the store
    kAlways,   // the registry is asked each time
    kNever,
};

// What separates a box from the host. kAuto takes the strongest that this host can really boot.
enum class Isolation {
    kAuto,
    kSoftware,  // a Linux kernel as a jailed process
    kHardware,  // a virtual machine; creation fails where the host cannot run one
};

// What carries a box's kernel.
enum class Engine {
    kAuto,  // kKvm where this host can really boot with it, else kUml
    kKvm,   // a virtual machine on /dev/kvm; creation fails where the host cannot run one
    kUml,   // the kernel as a jailed process
};

enum class Security {
    kStandard,  // every wall that the host offers
    kStrict,    // a missing wall is an error, and the guest kernel is kept apart from guest programs
};

// A port of the box that is reached through one of the host.
struct PortMapping {
    std::string host_address = "127.0.0.1";
    uint16_t host_port = 0;  // 0: the host chooses one at each start
    uint16_t box_port = 0;
    bool udp = false;
};

// A value that programs in the box use and never see. They have a placeholder for it, in the environment
// variable BOXLITE_SECRET_NAME; in the headers of requests over TLS to its hosts the value takes the
// placeholder's place, on the way out and outside of the box. Anywhere else a request with the placeholder is
// refused, and the network's log says so. Where an answer has the value in it, it becomes the placeholder
// again. A secret opens no connection by itself.
//
// Values are in the memory of one process of the running box and are never written down: a box that is
// started again needs them again, from where they were (`env`, `file`), or in StartOptions. Forks, and what
// goes on from a snapshot with memory, have the placeholders, and until they get values (Box::set_secrets)
// such requests are refused.
struct Secret {
    std::string name;                // letters, digits and '_'
    std::vector<std::string> hosts;  // that get it: "api.example.com", "*.example.com"; one or more
    std::string placeholder;         // 8 to 256 printable characters; empty: "<BOXLITE_SECRET:NAME>"
    bool in_query = false;           // also in the query of a URL
    // One of these, for the value: itself (4 bytes to 16 KiB, without line ends), a variable of the process
    // that starts the box, or a file (absolute path), of which a last line end does not count. None:
    // StartOptions has it.
    std::string value;
    std::string env;
    std::string file;
};

struct SecretValue {
    std::string name;
    std::string value;
};

struct NetworkRules {
    // What the box may connect to: "example.com", "*.example.com", an address, a block ("10.0.0.0/8") or "*"
    // for the public internet, each with ":PORT" or ":FROM-TO" and with "/udp" (else TCP) behind. Or which
    // HTTP requests it may make: "GET,HEAD https://api.example.com/v1/*" ("*" for every method); connections
    // are then looked into, those over TLS with a certificate authority of the box's own that its programs
    // trust. The host's own services are "host.boxlite.internal". Not set: the public internet. Empty:
    // nothing. Loopback, private, link-local, metadata and multicast addresses are open to rules that name
    // the address or a block of just such ones, never to names or to larger blocks.
    std::optional<std::vector<std::string>> allow;
    std::vector<std::string> deny;  // goes before `allow`; without port or "/udp" it is about everything
};

struct NetworkOptions : NetworkRules {
    bool enabled = true;  // false: the box has no network interface
    // A network that it shares with boxes of the same home that name it too: 1 to 63 of a-z, 0-9, '_' and
    // '-'. They reach each other at addresses that they keep for life, and by their names ("web",
    // "web.boxlite.internal"), whatever the rules allow outside; rules that deny go before that. Boxes that
    // are not on it do not reach them there, nor does the host. Empty: none.
    std::string private_network;
    std::vector<PortMapping> ports;
    uint32_t send_kbps = 0;  // of the box, in 1000 bits a second; 0: no limit
    uint32_t receive_kbps = 0;
    std::vector<Secret> secrets;
    // The box trusts the certificate authorities that were added to the host, for instance a company's.
    bool trust_host_ca = false;
};

struct BoxOptions {
    std::string name;  // ^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$, unique in the home; empty: one is made up
    std::string image = "alpine:latest";
    PullPolicy pull = PullPolicy::kMissing;

    uint32_t cpus = 1;
    uint32_t memory_mib = 1024;
    // The box's memory in huge pages of the host, for programs that use much of it: the kvm engine only, and
    // an error where the host gives none to shared memory. Such a box boots instead of going on from a
    // template.
    bool huge_pages = false;
    uint64_t disk_size_gb = 10;  // of 2^30 bytes; sparse: the host gives what is written
    Isolation isolation = Isolation::kAuto;
    Engine engine = Engine::kAuto;
    Security security = Security::kStandard;

    // Over the image's own settings, for the main process and every exec.
    Environment env;
    std::string working_dir;
    std::string user;      // "name", "uid", "name:group", "uid:gid"
    std::string hostname;  // empty: the first 12 characters of the box's id

    // A box with a main process (a job) runs ENTRYPOINT + CMD, merged with the image's as Docker does, as
    // the container's PID 1 and stops when that ends. Without one it idles for execs until stop().
    // Setting `entrypoint` or `cmd` makes a job; `job` alone runs what the image names.
    bool job = false;
    std::optional<std::vector<std::string>> entrypoint;  // {}: no entrypoint, also not the image's
    std::vector<std::string> cmd;
    bool tty = false;         // the main process gets a terminal
    bool stdin_open = false;  // the main process has a stdin to write to

    NetworkOptions network;

    std::vector<std::string> cap_add;  // "NET_ADMIN", "CAP_NET_ADMIN" or "ALL"; over Docker's default set
    std::vector<std::string> cap_drop;
    bool privileged = false;  // all capabilities and devices inside the box

    bool detach = false;       // false: a box started through this library ends with the process that did it
    bool auto_remove = false;  // removed when it stops
};

struct TerminalSize {
    uint16_t rows = 24;
    uint16_t cols = 80;
};

// One program to run in a box.
struct Command {
    std::vector<std::string> argv;         // argv[0] is looked up on PATH inside the box
    Environment env;                       // over the box's
    std::string working_dir;               // empty: the box's
    std::string user;                      // empty: the box's
    bool stdin_open = true;                // false: stdin is /dev/null
    std::optional<TerminalSize> tty;       // set: on a terminal; everything arrives as stdout
    std::chrono::milliseconds timeout{0};  // 0: none. Then SIGTERM, two seconds later SIGKILL
    bool privileged = false;
};

struct StartOptions {
    // Over BoxOptions::detach for this run of the box.
    std::optional<bool> detach;
    // Size of the main process's terminal, if it has one.
    std::optional<TerminalSize> terminal;
    // For secrets whose values come from nowhere else, or are to be others; also of a box that runs already.
    std::vector<SecretValue> secrets;
};

struct SnapshotOptions {
    bool memory = false;  // with what the box has in memory, of a running box of the kvm engine
};

struct RestoreOptions {
    // The programs go on from where they were, if the snapshot has the memory. False: only the disk, and the
    // box is left stopped.
    bool memory = false;
    bool force = false;   // a running box is stopped first, and what it has not kept is lost
    bool detach = false;  // see BoxOptions::detach
};

inline constexpr uint32_t kMaxForks = 256;

struct ForkOptions {
    uint32_t count = 1;  // of new boxes, at most kMaxForks
    // Of the new box; of several: the part before "-1", "-2", … Empty: names are made up.
    std::string name;
    bool detach = false;  // see BoxOptions::detach
};

inline constexpr std::chrono::milliseconds kDefaultStopGrace{10'000};

struct StopOptions {
    // From the stop signal to SIGKILL. 0: at once.
    std::chrono::milliseconds grace = kDefaultStopGrace;
};

struct CopyOptions {
    bool recursive = true;
    bool overwrite = true;         // false: an existing file at the destination is an error
    bool follow_symlinks = false;  // of the source itself, not of links inside it
    bool include_parent = true;    // false: only the content of a source directory is copied
};

}  // namespace boxlite
