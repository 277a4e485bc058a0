// Between the kernel's view of a file and FileInfo.
#pragma once

#include <string>

#include "agent/messages.h"
#include "base/fd.h"

namespace boxlite::agent {

// Everything about the file that `fd` (O_PATH is enough) refers to, a symbolic link included. `name` is
// passed through. The agent's /proc must be mounted.
Result<v1::FileInfo> file_info(const base::Fd& fd, std::string_view name);

// Gives the file that `fd` refers to the owner, mode, extended attributes and, when not 0, modification time
// of `attributes`; in that order, since a new owner costs the setuid bit. A symbolic link's mode stays.
Result<void> apply_attributes(const base::Fd& fd, const v1::FileInfo& attributes);

}  // namespace boxlite::agent
