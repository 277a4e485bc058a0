#include "net/stand_ins.h"

namespace boxlite::net {

namespace {

constexpr uint32_t kFirst = 0xc6120001;  // 198.18.0.1

IpAddress address_of(size_t number) {
    uint8_t bytes[4];
    base::store_be(bytes, kFirst + static_cast<uint32_t>(number));
    return IpAddress(base::ByteView(bytes, sizeof bytes));
}

}  // namespace

std::optional<IpAddress> StandIns::find(const std::string& name) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) return std::nullopt;
    return address_of(found->second);
}

std::optional<IpAddress> StandIns::add(const std::string& name) {
    if (const auto known = find(name)) return known;
    if (names_.size() >= kMaxNames) return std::nullopt;
    numbers_[name] = names_.size();
    names_.push_back(name);
    return address_of(names_.size() - 1);
}

const std::string* StandIns::name_of(const IpAddress& address) const {
    if (!covers(address)) return nullptr;
    const uint32_t number = base::load_be<uint32_t>(address.bytes().data()) - kFirst;
    return number < names_.size() ? &names_[number] : nullptr;
}

bool StandIns::covers(const IpAddress& address) {
    static const Prefix range = *Prefix::parse("198.18.0.0/15");
    return range.contains(address);
}

}  // namespace boxlite::net
