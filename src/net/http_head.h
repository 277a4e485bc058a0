// The head of an HTTP/1 request (RFC 9112), read strictly: what two readers could take for different requests
// is an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace boxlite::net {

inline constexpr size_t kMaxHttpHead = 64 << 10;

enum class HttpLine { kNo, kYes, kIncomplete };
// Whether the bytes begin with a line that any server might take for a request, or may once there are more of
// them.
HttpLine find_request_line(base::ByteView bytes);

struct HttpHead {
    size_t size = 0;        // with its empty line
    std::string problem;    // set: it is refused, and the rest says nothing
    std::string host;       // that it is for: normalized, or the text of an address
    std::string_view text;  // all of it, in the bytes that were read
    std::string_view method, target;
    bool version_1_0 = false;
    uint64_t body = 0;  // bytes that follow
    bool chunked = false;
    bool upgrade = false;  // asks to go on with something else
    bool tunnel = false;   // CONNECT: the same
};
// nullopt until all of it is there.
std::optional<HttpHead> read_http_request(base::ByteView bytes);

// The host of "host", "host:port" and "[address]:port", normalized, or the text of an address. nullopt when
// it is no name.
std::optional<std::string> host_of_authority(std::string_view authority);

// Goes through the body of a chunked message (RFC 9112, 7.1).
class ChunkedBody {
  public:
    // How many bytes belong to the body. At its end, or at an error, fewer than there are. What they carry is
    // appended to `data`, if there is one.
    size_t take(base::ByteView bytes, base::Bytes* data = nullptr);
    bool done() const { return state_ == State::kDone; }
    bool bad() const { return state_ == State::kBad; }

  private:
    enum class State { kSize, kExtension, kSizeEnd, kData, kDataEnd, kDataLineFeed, kTrailer, kDone, kBad };
    void step(uint8_t byte);
    State state_ = State::kSize;
    uint64_t left_ = 0;
    unsigned digits_ = 0;
    bool first_in_line_ = true;
};

}  // namespace boxlite::net
