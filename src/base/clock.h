// Time, as this project stores and prints it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace boxlite::base {

using Clock = std::chrono::steady_clock;

// Nanoseconds since the Unix epoch.
int64_t realtime_ns();

// RFC 3339 in UTC with milliseconds: 2026-11-29T16:40:01.123Z.
std::string format_time(int64_t realtime_ns);

// A point after which waiting has failed.
class Deadline {
  public:
    explicit Deadline(std::chrono::milliseconds budget) : at_(Clock::now() + budget) {}
    bool passed() const { return Clock::now() >= at_; }
    // Milliseconds left, 0 when passed; rounds up so that poll() does not spin.
    int remaining_ms() const;

  private:
    Clock::time_point at_;
};

}  // namespace boxlite::base
