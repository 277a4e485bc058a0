#include "net/member.h"

#include <algorithm>

#include "net/layout.h"
#include "net/policy.h"

namespace boxlite::net {

namespace {

constexpr size_t kMaxId = 64;

Prefix prefix_of(const IpAddress& address, unsigned length) {
    base::Bytes bytes(address.bytes().begin(), address.bytes().end());
    std::fill(bytes.begin() + length / 8, bytes.end(), uint8_t{0});
    return {IpAddress(bytes), length};
}

// It becomes the name of a file.
bool is_id(const std::string& text) {
    return !text.empty() && text.size() <= kMaxId && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    });
}

}  // namespace

Subnets Subnets::of(const IpAddress& v4, const IpAddress& v6) {
    static_assert(kPrivatePrefix % 8 == 0 && kPrivatePrefix6 % 8 == 0);
    return {prefix_of(v4, kPrivatePrefix), prefix_of(v6, kPrivatePrefix6)};
}

std::vector<std::string> Member::host_names() const {
    const auto host = normalize_host(fmt::format("{}.{}", name, kInternalZone));
    if (!host || *host == kHostName) return {};
    std::vector<std::string> names = {*host};
    const std::string alone = host->substr(0, host->size() - kInternalZone.size() - 1);
    if (alone.find('.') == std::string::npos && alone != "localhost") names.push_back(alone);
    return names;
}

Result<Member> member_from(const v1::NetworkMember& message) {
    const auto mac = mac_from(message.mac());
    const auto v4 = IpAddress::parse(message.address()), v6 = IpAddress::parse(message.address6());
    if (!is_id(message.box_id()) || !mac || !v4 || !v4->is_v4() || !v6 || v6->is_v4())
        return base::make_error(ErrorCode::kInvalidArgument,
                                "what a box of a private network says of itself is damaged");
    return Member{message.box_id(), message.name(), *mac, *v4, *v6};
}

v1::NetworkMember to_message(const Member& member) {
    v1::NetworkMember message;
    message.set_box_id(member.box_id);
    message.set_name(member.name);
    message.set_mac(member.mac.data(), member.mac.size());
    message.set_address(member.v4.to_string());
    message.set_address6(member.v6.to_string());
    return message;
}

}  // namespace boxlite::net
