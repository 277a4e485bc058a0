// A message alone on a stream that goes on after it: its length goes first (32 bits, big endian).
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/fd.h"

namespace boxlite::rpc {

template <typename Message>
std::string sized(const Message& message) {
    const std::string body = message.SerializeAsString();
    std::string out(4, '\0');
    base::store_be(out.data(), static_cast<uint32_t>(body.size()));
    return out + body;
}

// The rest of a message once the first byte of its length is there: descriptors come with that one.
template <typename Message>
Result<void> read_sized(int fd, uint8_t first, uint32_t most, Message& message) {
    uint8_t length[4] = {first};
    TRY(base::read_exact(fd, {length + 1, 3}));
    const uint32_t size = base::load_be<uint32_t>(length);
    if (size > most)
        return base::make_error(ErrorCode::kInvalidArgument, "a message of {} bytes is longer than {}", size,
                                most);
    base::Bytes bytes(size);
    TRY(base::read_exact(fd, bytes));
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return base::make_error(ErrorCode::kInvalidArgument, "a message is damaged");
    return {};
}

}  // namespace boxlite::rpc
