// Waiting between attempts.
#pragma once

#include <chrono>
#include <stop_token>

namespace boxlite::image {

// Exponential delays with jitter, or what the server asked for (at most a minute).
class Backoff {
  public:
    Backoff(int retries, std::chrono::milliseconds first_delay)
        : retries_(retries), first_delay_(first_delay) {}
    // False when the attempts are used up or `stop` was requested.
    bool wait(std::chrono::seconds retry_after, const std::stop_token& stop);
    void reset() { attempt_ = 0; }
    int attempts() const { return attempt_ + 1; }

  private:
    int retries_;
    std::chrono::milliseconds first_delay_;
    int attempt_ = 0;
};

// Sleeps, but not longer than until `stop` is requested; then false.
bool sleep_unless_stopped(std::chrono::milliseconds time, const std::stop_token& stop);

}  // namespace boxlite::image
