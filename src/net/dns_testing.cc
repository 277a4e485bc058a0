#include "net/dns_testing.h"

#include <algorithm>

namespace boxlite::net::dns::testing {

base::Bytes query(std::string_view name, uint16_t type, bool extended) {
    base::Bytes bytes = {0x12, 0x34, 0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, static_cast<uint8_t>(extended)};
    while (!name.empty()) {
        const std::string_view label = name.substr(0, name.find('.'));
        bytes.push_back(static_cast<uint8_t>(label.size()));
        bytes.insert(bytes.end(), label.begin(), label.end());
        name.remove_prefix(std::min(name.size(), label.size() + 1));
    }
    bytes.insert(bytes.end(), {0, static_cast<uint8_t>(type >> 8), static_cast<uint8_t>(type), 0, 1});
    if (extended) bytes.insert(bytes.end(), {0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0});
    return bytes;
}

base::Bytes answer(base::Bytes bytes, const std::vector<IpAddress>& found) {
    bytes[2] = 0x81;
    bytes[3] = 0x80;
    bytes[7] = static_cast<uint8_t>(found.size() + 1);
    const size_t alias = bytes.size() + 12;
    bytes.insert(bytes.end(), {0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, 'x', 0xc0, 12});
    for (const IpAddress& address : found) {
        bytes.insert(bytes.end(),
                     {0xc0, static_cast<uint8_t>(alias), 0, static_cast<uint8_t>(address.is_v4() ? 1 : 28), 0,
                      1, 0, 0, 0, 60, 0, static_cast<uint8_t>(address.bytes().size())});
        bytes.insert(bytes.end(), address.bytes().begin(), address.bytes().end());
    }
    return bytes;
}

}  // namespace boxlite::net::dns::testing
