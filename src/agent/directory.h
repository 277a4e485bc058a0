// Reading and removing directories of any size in bounded memory.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/event_loop.h"
#include "base/fd.h"

namespace boxlite::agent {

// The `limit` smallest names (as bytes) in the directory `fd` (not O_PATH) that are larger than `after`,
// sorted; and whether there are more. "." and ".." are not names.
struct NamePage {
    std::vector<std::string> names;
    bool more = false;
};
Result<NamePage> list_names(const base::Fd& fd, std::string_view after, size_t limit);

// Removes `name` in `dir` and all below it, without following links. Works
// off a bounded number of entries per turn of the loop, so that nobody else waits for long. Calls `done` from
// the loop at the end, or before returning when it is quick.
void remove_recursively(base::EventLoop& loop, base::Fd dir, std::string name,
                        std::function<void(Result<void>)> done);

}  // namespace boxlite::agent
