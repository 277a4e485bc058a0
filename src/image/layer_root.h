// The root file system of an image while its layers are applied: paths are resolved within it, as if it were
// the root of a running system, so no path leads out. Not thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "disk/ext4_writer.h"

namespace boxlite::image {

// A place for a name: its directory and the last component of its path.
struct RootPlace {
    disk::Ino directory = disk::kRootIno;
    std::string name;  // "" for the root itself
};

class ImageRoot {
  public:
    // Directories that have to be made up get this time.
    ImageRoot(disk::Ext4Writer& writer, int64_t timestamp) : writer_(writer), timestamp_(timestamp) {}

    disk::Ext4Writer& writer() { return writer_; }

    // From here on entries belong to the next layer. The first layer has number 1.
    void begin_layer() { ++layer_; }

    // Follows the symbolic links of all components but the last and makes directories that are missing (0755,
    // root's). A leading "/" or "./" and doubled or trailing slashes mean nothing. kImage for "..", NUL and
    // names or paths that are too long, for loops of links, and for a parent that is no directory.
    Result<RootPlace> resolve_parent(std::string_view path);
    // The same without making anything; nullopt when a component is missing or no directory.
    Result<std::optional<RootPlace>> find_parent(std::string_view path);

    // Marks what is at `place`, and the directories above, as part of the current layer.
    void claim(const RootPlace& place);
    // Removes what lower layers put at `place`, and spares what the current layer put there or below.
    Result<void> remove_lower(const RootPlace& place);
    // The same for everything in `directory`.
    Result<void> remove_lower_content(disk::Ino directory);

  private:
    struct Walk;

    Result<std::optional<RootPlace>> resolve(std::string_view path, bool make);
    Result<std::optional<disk::Ino>> enter(disk::Ino directory, const std::string& name, bool make,
                                           Walk& walk);

    disk::Ext4Writer& writer_;
    int64_t timestamp_;
    uint32_t layer_ = 0;
};

}  // namespace boxlite::image
