// What the guest kernel prints: kept in a bounded file, with the last lines at hand for the message of a
// boot that failed.
#pragma once

#include <string>

#include "shim/rotating_file.h"

namespace boxlite::shim {

class ConsoleLog {
  public:
    static Result<ConsoleLog> create(const std::string& path);
    void append(base::ByteView data);
    // The last few lines, without control characters; "" when nothing was printed.
    std::string last_lines() const;

  private:
    explicit ConsoleLog(RotatingFile file) : file_(std::move(file)) {}
    RotatingFile file_;
    std::string tail_;
};

}  // namespace boxlite::shim
