// Flows that end by being quiet, as those without connections do.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <list>
#include <map>

#include "base/clock.h"
#include "base/event_loop.h"

namespace boxlite::net {

// At most `max` of them: then the one that was quiet longest goes.
template <typename Key, typename Value>
class QuietTable {
  public:
    using Duration = std::chrono::milliseconds;

    // `patience` tells how long a value may be quiet, at least `shortest`. `closing` is called before one
    // goes, in whatever way.
    QuietTable(base::EventLoop& loop, size_t max, Duration shortest,
               std::function<Duration(const Value&)> patience, std::function<void(Value&)> closing)
        : loop_(loop),
          max_(max),
          shortest_(shortest),
          patience_(std::move(patience)),
          closing_(std::move(closing)) {}
    ~QuietTable() {
        close_if([](const Key&, Value&) { return true; });
        if (timer_) loop_.cancel(timer_);
    }
    QuietTable(const QuietTable&) = delete;
    QuietTable& operator=(const QuietTable&) = delete;

    // The value, which is not quiet now; null without one.
    Value* use(const Key& key) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return nullptr;
        Entry& entry = found->second;
        entry.active_at = base::Clock::now();
        order_.splice(order_.end(), order_, entry.order);
        return &entry.value;
    }

    // `key` is none that is there. The value stays in its place.
    Value& insert(const Key& key, Value value) {
        if (entries_.size() >= max_) close(Key(order_.front()));
        Entry& entry = entries_[key];
        entry.value = std::move(value);
        entry.active_at = base::Clock::now();
        entry.order = order_.insert(order_.end(), key);
        if (!timer_) timer_ = loop_.after(shortest_, [this] { expire(); });
        return entry.value;
    }

    void close(const Key& key) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return;
        closing_(found->second.value);
        order_.erase(found->second.order);
        entries_.erase(found);
    }

    void close_if(const std::function<bool(const Key&, Value&)>& condition) {
        for (auto it = order_.begin(); it != order_.end();) {
            const Key key = *it++;
            if (condition(key, entries_.at(key).value)) close(key);
        }
    }

  private:
    struct Entry {
        Value value;
        base::Clock::time_point active_at;
        typename std::list<Key>::iterator order;
    };

    void expire() {
        timer_ = 0;
        const auto now = base::Clock::now();
        for (auto it = order_.begin(); it != order_.end();) {
            const Key key = *it++;
            const Entry& entry = entries_.at(key);
            const auto quiet = now - entry.active_at;
            if (quiet < shortest_) break;
            if (quiet >= patience_(entry.value)) close(key);
        }
        if (!entries_.empty()) timer_ = loop_.after(shortest_, [this] { expire(); });
    }

    base::EventLoop& loop_;
    const size_t max_;
    const Duration shortest_;
    const std::function<Duration(const Value&)> patience_;
    const std::function<void(Value&)> closing_;
    std::map<Key, Entry> entries_;
    std::list<Key> order_;  // the one that was quiet longest first
    base::EventLoop::TimerId timer_ = 0;
};

}  // namespace boxlite::net
