// Boxes and images as values to print: the fields that --format knows.
#pragma once

#include "boxlite/box.h"
#include "boxlite/image.h"
#include "cli/value.h"

namespace boxlite::cli {

// Id, Name, Image, Created, Status, State{…}, Cpus, Memory, and the settings of the box.
Value describe_box(const BoxInfo& info);
// Id, Repository, Tag, Reference, Digest, Created, Size.
Value describe_image(const ImageInfo& info);

// "Up 5 minutes", "Exited (3) 2 hours ago", "Created".
std::string status_line(const BoxInfo& info, int64_t now_ns);
// As a shell would want it typed, cut to `limit` characters.
std::string command_line(const std::vector<std::string>& argv, size_t limit);

// RFC 3339, "" for 0.
std::string time_text(int64_t ns);

}  // namespace boxlite::cli
