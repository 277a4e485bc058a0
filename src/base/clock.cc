#include "base/clock.h"

#include <fmt/format.h>

#include <ctime>

namespace boxlite::base {

int64_t realtime_ns() {
    timespec now;
    ::clock_gettime(CLOCK_REALTIME, &now);
    return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::string format_time(int64_t ns) {
    const time_t seconds = ns / 1'000'000'000;
    tm parts;
    ::gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, ns / 1'000'000 % 1000);
}

int Deadline::remaining_ms() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
}

}  // namespace boxlite::base
