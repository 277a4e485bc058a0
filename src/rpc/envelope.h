// The protobuf messages inside ttrpc frames, Request and Response. Written by hand so that a payload is
// copied once on the way out and not at all on the way in.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "rpc/frame.h"

namespace boxlite::rpc {

// Protobuf's messages and those of lite.h.
template <typename T>
concept Message = requires(const T& message, uint8_t* out) {
    { message.ByteSizeLong() } -> std::convertible_to<size_t>;
    { message.SerializeWithCachedSizesToArray(out) } -> std::same_as<uint8_t*>;
};

// What goes into a payload: a message, serialized in place, or bytes as they are. Refers to its argument.
class Payload {
  public:
    template <Message M>
    Payload(const M& message)  // NOLINT: implicit by design
        : source_(&message), size_(message.ByteSizeLong()), write_([](const void* source, uint8_t* out) {
              return static_cast<const M*>(source)->SerializeWithCachedSizesToArray(out);
          }) {}
    Payload(std::string_view bytes)
        : source_(bytes.data()), size_(bytes.size()) {}                      // NOLINT: implicit by design
    Payload(const std::string& bytes) : Payload(std::string_view(bytes)) {}  // NOLINT: implicit by design

    size_t size() const { return size_; }
    // Precondition: size() bytes at `out`. Returns the end.
    uint8_t* write(uint8_t* out) const;

  private:
    const void* source_;
    size_t size_;
    uint8_t* (*write_)(const void* source, uint8_t* out) = nullptr;  // null: the bytes themselves
};

// A whole frame, header included, ready to be sent.
struct EncodedFrame {
    std::unique_ptr<uint8_t[]> bytes;
    size_t size = 0;
};

// kInvalidArgument when the frame would be larger than kMaxFrameData. `timeout` 0: none.
Result<EncodedFrame> encode_request(uint32_t stream, std::string_view service, std::string_view method,
                                    const Payload& payload, std::chrono::nanoseconds timeout);
Result<EncodedFrame> encode_response(uint32_t stream, const Payload& payload);
// The message is cut at 64 KiB.
EncodedFrame encode_error(uint32_t stream, const Error& error);

// The views lie in the decoded bytes. Unknown fields are passed over.
struct RequestView {
    std::string_view service;
    std::string_view method;
    std::string_view payload;
    std::chrono::nanoseconds timeout{0};
};
struct ResponseView {
    std::string_view payload;
    std::optional<Error> error;
};

// kRpcTransport when the bytes are not such a message.
Result<RequestView> decode_request(base::ByteView data);
Result<ResponseView> decode_response(base::ByteView data);

// kRpcTransport, naming `what`, when `bytes` are not a message of that type.
template <typename Message>
Result<Message> parse(std::string_view bytes, std::string_view what) {
    Message message;
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
        return base::make_error(ErrorCode::kRpcTransport, "{} is not a valid message", what);
    return message;
}

}  // namespace boxlite::rpc
