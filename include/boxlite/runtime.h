// The door of the library: a home directory with its boxes and images.
//
//   auto runtime = boxlite::Runtime::open({}).value();
//   auto box = runtime.create({.image = "python:3.12-slim"}).value();
//   auto run = box.exec({.argv = {"python", "-c", "print(2 ** 100)"}}).value();
//
// Any number of processes may have one home open at the same time; there is no daemon. A box that this
// process started without `detach` ends when the last Runtime, Box and Execution of this object are gone, or
// the process is.
//
// Thread safety: every call may be made from any thread at any time. No call throws, changes signal handlers
// or ends the process.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "boxlite/box.h"
#include "boxlite/image.h"
#include "boxlite/options.h"
#include "boxlite/result.h"

namespace boxlite {

std::string version();

struct RuntimeInfo {
    std::string version;
    std::string home;
    std::string os;
    std::string arch;
    std::string host_kernel;
    std::string engine;         // that kAuto takes on this host
    std::string isolation;      // "software" or "hardware"
    std::string engine_reason;  // why not a stronger one; empty when there is none
    uint64_t boxes_total = 0;
    uint64_t boxes_running = 0;
    uint64_t boxes_stopped = 0;
    uint64_t boxes_configured = 0;
    uint64_t images = 0;
};

// A handle; copies refer to the same runtime.
class Runtime {
  public:
    // Makes the home directory when it is missing.
    static Result<Runtime> open(const RuntimeOptions& options = {});

    // A new box, not yet started. The image is fetched when the pull policy says so. After a crash at any
    // moment the box is there as a whole or not at all. kAlreadyExists: the name is taken.
    Result<Box> create(const BoxOptions& options, const ProgressSink& progress = {});

    // By id, name, or a prefix of an id that only one box has.
    Result<Box> get(const std::string& id_or_name) const;

    // The box named options.name, made when there is none; second: whether it was made.
    Result<std::pair<Box, bool>> get_or_create(const BoxOptions& options, const ProgressSink& progress = {});

    // Every box, newest first.
    Result<std::vector<BoxInfo>> list() const;

    // Removes the box and all its files. kInvalidState when it is running, unless `force`, which kills it.
    Result<void> remove(const std::string& id_or_name, bool force = false);

    Images images() const;
    // Absolute.
    const std::string& home() const;
    Result<RuntimeInfo> info() const;

  private:
    explicit Runtime(std::shared_ptr<RuntimeImpl> impl) : impl_(std::move(impl)) {}
    std::shared_ptr<RuntimeImpl> impl_;
};

}  // namespace boxlite
