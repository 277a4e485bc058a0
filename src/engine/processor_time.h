#pragma once

#include <chrono>
#include <ctime>

namespace boxlite::engine {

// Of a clock as clock_getcpuclockid() gives it; 0 when its process is gone.
inline std::chrono::nanoseconds processor_time(clockid_t clock) {
    timespec time{};
    if (::clock_gettime(clock, &time) < 0) return {};
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace boxlite::engine
