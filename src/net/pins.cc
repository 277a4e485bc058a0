#include "net/pins.h"

#include <algorithm>

namespace boxlite::net {

void Pins::add(const IpAddress& address, const std::string& name) {
    const auto [entry, is_new] = names_.try_emplace(address);
    std::vector<std::string>& names = entry->second;
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    if (names.size() == kMaxNames) names.erase(names.begin());
    names.push_back(name);
    if (!is_new) return;
    order_.push_back(address);
    if (order_.size() <= kMaxAddresses) return;
    names_.erase(order_.front());
    order_.pop_front();
}

const std::vector<std::string>& Pins::names(const IpAddress& address) const {
    static const std::vector<std::string> none;
    const auto found = names_.find(address);
    return found == names_.end() ? none : found->second;
}

}  // namespace boxlite::net
