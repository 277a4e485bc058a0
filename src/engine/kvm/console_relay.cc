#include "engine/kvm/console_relay.h"

#include <algorithm>

namespace boxlite::engine::kvm {

void ConsoleRelay::append(base::ByteView text) {
    bool first;
    {
        const std::scoped_lock lock(mutex_);
        first = waiting_.empty();
        waiting_ += base::as_text(text.first(std::min(text.size(), kMaxWaiting - waiting_.size())));
    }
    if (first) loop_.post([self = shared_from_this()] { self->flush(); });
}

void ConsoleRelay::flush() {
    std::string text;
    {
        const std::scoped_lock lock(mutex_);
        text.swap(waiting_);
    }
    if (sink_ && !text.empty()) sink_(base::as_bytes(text));
}

}  // namespace boxlite::engine::kvm
