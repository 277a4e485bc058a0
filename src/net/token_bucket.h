// A rate that is kept on average: what is taken runs up a debt, which time pays off.
// Thread safety: one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace boxlite::net {

class TokenBucket {
  public:
    // Bytes a second, 0: no limit. As much as a tenth of a second's may come at once.
    explicit TokenBucket(uint64_t rate, base::Clock::time_point now = base::Clock::now())
        : rate_(static_cast<double>(rate)), tokens_(burst()), at_(now) {}

    bool limited() const { return rate_ > 0; }
    // How long until anything may be taken; 0: now.
    std::chrono::milliseconds wait(base::Clock::time_point now) {
        if (!limited()) return std::chrono::milliseconds(0);
        tokens_ = std::min(burst(), tokens_ + rate_ * std::chrono::duration<double>(now - at_).count());
        at_ = now;
        if (tokens_ > 0) return std::chrono::milliseconds(0);
        return std::chrono::milliseconds(1 + static_cast<int64_t>(-tokens_ / rate_ * 1000));
    }
    void take(uint64_t bytes) {
        if (limited()) tokens_ -= static_cast<double>(bytes);
    }

  private:
    double burst() const { return rate_ / 10; }
    double rate_;
    double tokens_;
    base::Clock::time_point at_;
};

}  // namespace boxlite::net
