// Files that travel inside the executable: the supervisor, the guest kernel, the agent and the base image.
#pragma once

#include <span>
#include <string_view>

namespace boxlite::runtime {

struct BundledFile {
    std::string_view name;
    std::string_view content;
    std::string_view sha256;  // of the content, lower-case hex
    bool executable = false;
};

// What this program carries. Defined by boxlite_bundle, or by boxlite_bundle_none (nothing): a program links
// one.
std::span<const BundledFile> bundled_files();

}  // namespace boxlite::runtime
