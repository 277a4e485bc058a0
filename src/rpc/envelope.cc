#include "rpc/envelope.h"

#include <algorithm>
#include <cstring>

#include "rpc/status.h"
#include "rpc/utf8.h"
#include "rpc/wire.h"

namespace boxlite::rpc {

namespace {

constexpr std::string_view kDetailType = "type.googleapis.com/boxlite.v1.ErrorDetail";
constexpr size_t kMaxErrorMessage = size_t{64} << 10;

struct RequestField {
    static constexpr uint32_t kService = 1, kMethod = 2, kPayload = 3, kTimeout = 4;
};
struct ResponseField {
    static constexpr uint32_t kStatus = 1, kPayload = 2;
};
struct StatusField {
    static constexpr uint32_t kCode = 1, kMessage = 2, kDetails = 3;
};
struct AnyField {
    static constexpr uint32_t kType = 1, kValue = 2;
};
constexpr uint32_t kDetailCode = 1;

Error malformed(const char* what) {
    return base::make_error(ErrorCode::kRpcTransport, "the peer sent a malformed {}", what);
}

Result<EncodedFrame> start_frame(uint32_t stream, FrameType type, size_t length) {
    if (length > kMaxFrameData)
        return base::make_error(ErrorCode::kInvalidArgument,
                                "a message of {} bytes does not fit into a frame of {}", length,
                                kMaxFrameData);
    EncodedFrame frame{std::make_unique_for_overwrite<uint8_t[]>(kFrameHeaderSize + length),
                       kFrameHeaderSize + length};
    encode_header({.length = static_cast<uint32_t>(length), .stream = stream, .type = type},
                  frame.bytes.get());
    return frame;
}

// The ErrorCode in an Any of our type, nullopt when it is another type or says nothing.
std::optional<ErrorCode> decode_detail(std::string_view bytes) {
    std::string_view type;
    std::string_view value;
    WireReader any(bytes);
    while (const auto field = any.next()) {
        if (field->number == AnyField::kType) type = field->bytes;
        if (field->number == AnyField::kValue) value = field->bytes;
    }
    if (type != kDetailType) return std::nullopt;
    std::optional<ErrorCode> code;
    WireReader detail(value);
    while (const auto field = detail.next())
        if (field->number == kDetailCode) code = error_code_from_number(field->number_value);
    return code;
}

// nullopt: the status is "ok".
Result<std::optional<Error>> decode_status(std::string_view bytes) {
    int32_t status = 0;
    std::string_view message;
    std::optional<ErrorCode> code;
    WireReader reader(bytes);
    while (const auto field = reader.next()) {
        if (field->number == StatusField::kCode) status = static_cast<int32_t>(field->number_value);
        if (field->number == StatusField::kMessage) message = field->bytes;
        if (field->number == StatusField::kDetails && !code) code = decode_detail(field->bytes);
    }
    if (reader.failed()) return malformed("status");
    if (status == 0) return std::optional<Error>();
    return std::optional(Error{code.value_or(from_status(status)), std::string(message)});
}

}  // namespace

uint8_t* Payload::write(uint8_t* out) const {
    if (write_) return write_(source_, out);
    if (size_) std::memcpy(out, source_, size_);
    return out + size_;
}

Result<EncodedFrame> encode_request(uint32_t stream, std::string_view service, std::string_view method,
                                    const Payload& payload, std::chrono::nanoseconds timeout) {
    const auto timeout_ns = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 0));
    const size_t length = bytes_field_size(service.size()) + bytes_field_size(method.size()) +
                          bytes_field_size(payload.size()) + (timeout_ns ? number_field_size(timeout_ns) : 0);
    EncodedFrame frame = TRY(start_frame(stream, FrameType::kRequest, length));
    uint8_t* out = frame.bytes.get() + kFrameHeaderSize;
    out = write_bytes_field(out, RequestField::kService, service);
    out = write_bytes_field(out, RequestField::kMethod, method);
    out = payload.write(write_bytes_field_start(out, RequestField::kPayload, payload.size()));
    if (timeout_ns) write_number_field(out, RequestField::kTimeout, timeout_ns);
    return frame;
}

Result<EncodedFrame> encode_response(uint32_t stream, const Payload& payload) {
    EncodedFrame frame = TRY(start_frame(stream, FrameType::kResponse, bytes_field_size(payload.size())));
    payload.write(write_bytes_field_start(frame.bytes.get() + kFrameHeaderSize, ResponseField::kPayload,
                                          payload.size()));
    return frame;
}

EncodedFrame encode_error(uint32_t stream, const Error& error) {
    // Paths in messages may hold anything.
    const std::string message = to_utf8(std::string_view(error.message).substr(0, kMaxErrorMessage));
    const auto status = static_cast<uint64_t>(to_status(error.code));
    const auto code = static_cast<uint64_t>(error.code);
    const size_t detail = number_field_size(code);
    const size_t any = bytes_field_size(kDetailType.size()) + bytes_field_size(detail);
    const size_t body = number_field_size(status) + bytes_field_size(message.size()) + bytes_field_size(any);
    // Never fails: the message has been cut.
    EncodedFrame frame = start_frame(stream, FrameType::kResponse, bytes_field_size(body)).value();
    uint8_t* out =
        write_bytes_field_start(frame.bytes.get() + kFrameHeaderSize, ResponseField::kStatus, body);
    out = write_number_field(out, StatusField::kCode, status);
    out = write_bytes_field(out, StatusField::kMessage, message);
    out = write_bytes_field_start(out, StatusField::kDetails, any);
    out = write_bytes_field(out, AnyField::kType, kDetailType);
    out = write_bytes_field_start(out, AnyField::kValue, detail);
    write_number_field(out, kDetailCode, code);
    return frame;
}

Result<RequestView> decode_request(base::ByteView data) {
    RequestView request;
    WireReader reader(base::as_text(data));
    while (const auto field = reader.next()) {
        if (field->number == RequestField::kService) request.service = field->bytes;
        if (field->number == RequestField::kMethod) request.method = field->bytes;
        if (field->number == RequestField::kPayload) request.payload = field->bytes;
        if (field->number == RequestField::kTimeout)
            request.timeout = std::chrono::nanoseconds(static_cast<int64_t>(field->number_value));
    }
    if (reader.failed()) return malformed("request");
    return request;
}

Result<ResponseView> decode_response(base::ByteView data) {
    ResponseView response;
    WireReader reader(base::as_text(data));
    while (const auto field = reader.next()) {
        if (field->number == ResponseField::kStatus) response.error = TRY(decode_status(field->bytes));
        if (field->number == ResponseField::kPayload) response.payload = field->bytes;
    }
    if (reader.failed()) return malformed("response");
    return response;
}

}  // namespace boxlite::rpc
