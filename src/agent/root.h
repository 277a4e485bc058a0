// Paths inside a directory tree that is not trusted: whatever links it holds, resolution stays within it
// (openat2 with RESOLVE_IN_ROOT, and no /proc-style magic links). A path is bytes, absolute or not; both
// start at the tree's top.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/fd.h"

namespace boxlite::agent {

// The error for a failed file operation, with the code that fits errno: kNotFound, kAlreadyExists,
// kInvalidArgument, kResourceExhausted or kStorage. `what` as in "open '/x'".
Error file_error(std::string_view what, int errnum);

class Root {
  public:
    // `top` is an O_PATH descriptor of the tree's top directory.
    explicit Root(base::Fd top) : top_(std::move(top)) {}

    int fd() const { return top_.get(); }

    // O_CLOEXEC is added to `flags`.
    Result<base::Fd> open(std::string_view path, int flags, mode_t mode = 0) const;

    // The directory (O_PATH) that holds the last component of `path`, and that component: a plain name,
    // never empty, "." or "..". With `make_parents`, missing directories are made with mode 0755.
    struct Place {
        base::Fd dir;
        std::string name;
    };
    Result<Place> place(std::string_view path, bool make_parents) const;

    // A small text file as a whole; "" when there is none. kInvalidArgument when larger than `limit`.
    Result<std::string> read_text(std::string_view path, size_t limit) const;

  private:
    base::Fd top_;
};

}  // namespace boxlite::agent
