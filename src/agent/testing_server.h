// What main() does for a machine, for a test on the host's own kernel: a container on the directory DIR/root,
// served on `streams` until one of them ends.
#pragma once

#include <string>
#include <vector>

#include "base/fd.h"

namespace boxlite::agent {

// `spec` is a serialized ContainerSpec. Changes the calling process's mount namespace: for a process of its
// own.
Result<void> serve_for_test(const std::string& dir, const std::string& spec, bool idle_init,
                            std::vector<base::Fd> streams);

}  // namespace boxlite::agent
