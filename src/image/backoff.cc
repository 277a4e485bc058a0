#include "image/backoff.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/id.h"

namespace boxlite::image {

namespace {

constexpr std::chrono::milliseconds kLongestDelay{8'000};
constexpr std::chrono::seconds kLongestRetryAfter{60};

}  // namespace

bool sleep_unless_stopped(std::chrono::milliseconds time, const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, time, [] { return false; });
    return !stop.stop_requested();
}

bool Backoff::wait(std::chrono::seconds retry_after, const std::stop_token& stop) {
    if (attempt_ >= retries_) return false;
    const auto full = std::min(first_delay_ * (1 << std::min(attempt_, 16)), kLongestDelay);
    ++attempt_;
    uint8_t random;
    base::random_bytes({&random, 1});
    auto delay = full / 2 + full * random / 512;  // between a half and all of it
    if (retry_after.count() > 0) delay = std::min(retry_after, kLongestRetryAfter) + delay;
    return sleep_unless_stopped(std::chrono::duration_cast<std::chrono::milliseconds>(delay), stop);
}

}  // namespace boxlite::image
