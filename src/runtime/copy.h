// Copies between the host and a box, over the Files service.
//
// Neither side trusts the other's links: paths in the box are resolved by the agent inside the container's
// root, paths on the host are opened one component at a time, below the destination, without following links.
#pragma once

#include <string>

#include "runtime/box_impl.h"

namespace boxlite::runtime {

Result<CopyStats> copy_into(const BoxImpl& box, const std::string& host_path, const std::string& box_path,
                            const CopyOptions& options);
Result<CopyStats> copy_out(const BoxImpl& box, const std::string& box_path, const std::string& host_path,
                           const CopyOptions& options);

}  // namespace boxlite::runtime
