// Shows what a pull or a build is doing: bars on a terminal, a line for each finished part elsewhere.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "boxlite/image.h"

namespace boxlite::cli {

class ProgressDisplay {
  public:
    // `quiet`: shows nothing. Everything goes to standard error.
    explicit ProgressDisplay(bool quiet);
    ProgressDisplay(const ProgressDisplay&) = delete;
    ProgressDisplay& operator=(const ProgressDisplay&) = delete;
    ~ProgressDisplay();

    // Valid as long as the display is.
    ProgressSink sink();

  private:
    void update(const Progress& progress);
    void draw();
    std::string line(const Progress& progress) const;

    const bool quiet_;
    const bool bars_;
    std::mutex mutex_;
    std::vector<std::string> order_;
    std::map<std::string, Progress> items_;
    size_t drawn_ = 0;  // lines on the terminal
    int64_t drawn_at_ = 0;
};

}  // namespace boxlite::cli
