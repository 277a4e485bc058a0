#include "runtime/children.h"

namespace boxlite::runtime {

Children::~Children() {
    reap();
}

void Children::adopt(const std::string& box_id, Launched child) {
    reap();
    const std::scoped_lock lock(mutex_);
    children_.emplace(box_id, std::move(child));
}

void Children::reap() {
    const std::scoped_lock lock(mutex_);
    for (auto entry = children_.begin(); entry != children_.end();) {
        const auto ended = entry->second.process.wait_for(std::chrono::milliseconds(0));
        // An error means that the application collects all its children itself.
        const bool gone = !ended.ok() || ended->has_value();
        entry = gone ? children_.erase(entry) : std::next(entry);
    }
}

}  // namespace boxlite::runtime
