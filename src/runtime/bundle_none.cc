#include "runtime/bundle.h"

namespace boxlite::runtime {

std::span<const BundledFile> bundled_files() {
    return {};
}

}  // namespace boxlite::runtime
