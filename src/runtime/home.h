// The layout of a home directory. Paths only; nothing here opens the database.
#pragma once

#include <string>

#include "base/result.h"

namespace boxlite::runtime {

// Everything of one box is in its folder and goes with it.
struct BoxFolder {
    std::string path;

    std::string disk() const { return path + "/disk.qcow2"; }
    std::string socket() const { return path + "/shim.sock"; }
    // Where the process that has the values of the box's secrets takes them.
    std::string secrets_socket() const { return path + "/secrets.sock"; }
    // Held by the supervisor for its whole life.
    std::string lock() const { return path + "/lock"; }
    // Held by whoever starts, stops or removes the box, so that these do not cross.
    std::string change_lock() const { return path + "/change.lock"; }
    // The machine's cgroups, a path a line: the supervisor's note for whoever finds it killed.
    std::string cgroups() const { return path + "/cgroups"; }
    std::string exit_file() const { return path + "/exit.json"; }
    // What becomes it; says something already when the rules of the supervisor's jail ended it.
    std::string unfinished_exit_file() const { return path + "/exit.new"; }
    std::string logs() const { return path + "/logs"; }
    std::string console_log() const { return logs() + "/console.log"; }
    std::string network_log() const { return logs() + "/network.log"; }
    std::string output_log() const { return logs() + "/output.log"; }
    // What the supervisor printed before it had a log.
    std::string supervisor_stderr() const { return logs() + "/shim.stderr"; }
};

class Home {
  public:
    // `path` empty: $BOXLITE_HOME, else ~/.boxlite. Makes the folders, 0700, when they are missing.
    static Result<Home> open(const std::string& path);

    const std::string& path() const { return path_; }
    std::string database() const { return path_ + "/boxlite.db"; }
    std::string migration_lock() const { return path_ + "/boxlite.db.lock"; }
    std::string images() const { return path_ + "/images"; }
    std::string bases() const { return path_ + "/bases"; }
    std::string layers() const { return bases() + "/layers"; }
    std::string boxes() const { return path_ + "/boxes"; }
    std::string kernels() const { return path_ + "/kernels"; }
    std::string cache() const { return path_ + "/cache"; }
    std::string templates() const { return cache() + "/templates"; }
    std::string logs() const { return path_ + "/logs"; }
    // Where the boxes of a private network find each other (see net/mesh.h).
    std::string network(const std::string& name) const { return path_ + "/networks/" + name; }

    // Shared: a box is being created. Exclusive: folders without a box are being collected.
    std::string boxes_lock() const { return boxes() + "/.lock"; }
    // Shared: a base is being used for a new box. Exclusive: bases that nobody needs are being removed.
    std::string bases_lock() const { return bases() + "/.lock"; }

    BoxFolder box(const std::string& id) const { return {boxes() + "/" + id}; }

  private:
    explicit Home(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

}  // namespace boxlite::runtime
