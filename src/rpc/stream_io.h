// One transfer on a non-blocking stream descriptor, socket or not, without SIGPIPE on sockets.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"

namespace boxlite::rpc {

// nullopt: nothing can be transferred now. Reading 0 bytes is the end of the stream.
// kPortal when the connection has failed.
Result<std::optional<size_t>> read_some(int fd, std::span<uint8_t> space);
Result<std::optional<size_t>> write_some(int fd, std::span<const iovec> parts);

}  // namespace boxlite::rpc
