#include "rpc/envelope.h"

#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include "rpc/status.h"
#include "rpc/ttrpc.pb.h"

namespace boxlite::rpc {
namespace {

base::ByteView data_of(const EncodedFrame& frame) {
    return {frame.bytes.get() + kFrameHeaderSize, frame.size - kFrameHeaderSize};
}
FrameHeader header_of(const EncodedFrame& frame) {
    return decode_header(std::span<const uint8_t, kFrameHeaderSize>(frame.bytes.get(), kFrameHeaderSize))
        .value();
}

TEST(Envelope, ProtocReadsOurRequests) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{127}, size_t{128}, size_t{100'000}}) {
        const std::string payload(size, '\x8f');
        const auto frame =
            encode_request(77, "boxlite.v1.Files", "ReadAt", payload, std::chrono::milliseconds(1500))
                .value();
        EXPECT_EQ(header_of(frame).stream, 77u);
        EXPECT_EQ(header_of(frame).type, FrameType::kRequest);
        ttrpc::Request request;
        ASSERT_TRUE(request.ParseFromArray(data_of(frame).data(), static_cast<int>(data_of(frame).size())));
        EXPECT_EQ(request.service(), "boxlite.v1.Files");
        EXPECT_EQ(request.method(), "ReadAt");
        EXPECT_EQ(request.payload(), payload);
        EXPECT_EQ(request.timeout_nano(), 1'500'000'000);
    }
}

TEST(Envelope, WeReadProtocsRequests) {
    ttrpc::Request request;
    request.set_service("s");
    request.set_method("m");
    request.set_payload(std::string("\0\1\2", 3));
    request.set_timeout_nano(-5);
    request.add_metadata()->set_key("trace");
    const std::string bytes = request.SerializeAsString();
    const auto view = decode_request(base::as_bytes(bytes)).value();
    EXPECT_EQ(view.service, "s");
    EXPECT_EQ(view.method, "m");
    EXPECT_EQ(view.payload, std::string_view("\0\1\2", 3));
    EXPECT_EQ(view.timeout.count(), -5);
}

TEST(Envelope, MessagesAreSerializedInPlace) {
    ttrpc::KeyValue message;
    message.set_key(std::string(300, 'k'));
    const auto frame = encode_response(1, message).value();
    EXPECT_EQ(header_of(frame).type, FrameType::kResponse);
    ttrpc::Response response;
    ASSERT_TRUE(response.ParseFromArray(data_of(frame).data(), static_cast<int>(data_of(frame).size())));
    EXPECT_EQ(response.payload(), message.SerializeAsString());
    const auto view = decode_response(data_of(frame)).value();
    EXPECT_FALSE(view.error);
    EXPECT_EQ(parse<ttrpc::KeyValue>(view.payload, "kv").value().key(), message.key());
}

TEST(Envelope, EveryErrorCodeSurvivesTheTrip) {
    for (int number = 1; number <= 21; ++number) {
        const Error error{static_cast<ErrorCode>(number), "why " + std::to_string(number)};
        const auto frame = encode_error(9, error);
        const auto view = decode_response(data_of(frame)).value();
        ASSERT_TRUE(view.error);
        EXPECT_EQ(view.error->code, error.code);
        EXPECT_EQ(view.error->message, error.message);

        ttrpc::Response response;
        ASSERT_TRUE(response.ParseFromArray(data_of(frame).data(), static_cast<int>(data_of(frame).size())));
        EXPECT_EQ(response.status().code(), static_cast<int>(to_status(error.code)));
        EXPECT_GE(response.status().code(), 1);
        EXPECT_LE(response.status().code(), 16);
        EXPECT_EQ(response.status().message(), error.message);
        ttrpc::ErrorDetail detail;
        ASSERT_TRUE(detail.ParseFromString(response.status().details(0).value()));
        EXPECT_EQ(detail.code(), number);
    }
    EXPECT_FALSE(error_code_from_number(0));
    EXPECT_FALSE(error_code_from_number(22));
}

TEST(Envelope, ErrorMessagesAreMadeText) {
    const struct {
        std::string raw, text;
    } cases[] = {
        {"plain", "plain"},
        {"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x93\xa6", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x93\xa6"},
        {"/a\xff/b", "/a?/b"},
        {"\xc3", "?"},
        {"\xc0\xaf", "??"},            // overlong
        {"\xed\xa0\x80", "???"},       // surrogate
        {"\xf4\x90\x80\x80", "????"},  // past U+10FFFF
        {"\xe2\x82x", "??x"},
    };
    for (const auto& [raw, text] : cases) {
        const auto frame = encode_error(1, {ErrorCode::kStorage, raw});
        ttrpc::Response response;
        ASSERT_TRUE(response.ParseFromArray(data_of(frame).data(), static_cast<int>(data_of(frame).size())));
        EXPECT_EQ(response.status().message(), text);
    }
}

TEST(Envelope, TheContractsStatusCodes) {
    EXPECT_EQ(static_cast<int>(to_status(ErrorCode::kNotFound)), 5);
    EXPECT_EQ(static_cast<int>(to_status(ErrorCode::kExecution)), 7);
    EXPECT_EQ(static_cast<int>(to_status(ErrorCode::kInvalidArgument)), 3);
    EXPECT_EQ(static_cast<int>(to_status(ErrorCode::kInvalidState)), 9);
}

TEST(Envelope, ForeignErrorsGetTheNearestCode) {
    ttrpc::Response response;
    response.mutable_status()->set_code(5);
    response.mutable_status()->set_message("gone");
    auto* detail = response.mutable_status()->add_details();
    detail->set_type_url("type.googleapis.com/other.Detail");
    detail->set_value("\x08\x03");
    const std::string bytes = response.SerializeAsString();
    const auto view = decode_response(base::as_bytes(bytes)).value();
    ASSERT_TRUE(view.error);
    EXPECT_EQ(view.error->code, ErrorCode::kNotFound);
    EXPECT_EQ(from_status(12), ErrorCode::kUnsupported);
    EXPECT_EQ(from_status(-1), ErrorCode::kRpc);
    EXPECT_EQ(from_status(99), ErrorCode::kRpc);
}

TEST(Envelope, OversizeIsRefusedBeforeItIsSent) {
    const std::string payload(kMaxFrameData, 'x');
    EXPECT_EQ(encode_request(1, "s", "m", payload, {}).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(encode_response(1, payload).error().code, ErrorCode::kInvalidArgument);
    const auto frame = encode_error(1, {ErrorCode::kInternal, payload});
    EXPECT_LT(frame.size, size_t{70} << 10);
}

TEST(Envelope, DamageIsAnErrorNeverMore) {
    const char* broken[] = {"\x0a",
                            "\x0a\x05"
                            "ab",
                            "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                            "\x0b",
                            "\x07",
                            "\x21\x01\x02",
                            "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (const char* bytes : broken) {
        EXPECT_EQ(decode_request(base::as_bytes(bytes)).error().code, ErrorCode::kRpcTransport);
        EXPECT_EQ(decode_response(base::as_bytes(bytes)).error().code, ErrorCode::kRpcTransport);
    }
    // Single-bit damage in a real message: what both we and protoc accept, both read alike.
    google::protobuf::SetLogHandler(nullptr);
    size_t accepted = 0;
    ttrpc::Request request;
    request.set_service("boxlite.v1.Execution");
    request.set_method("Start");
    request.set_payload("payload");
    request.set_timeout_nano(1'000'000'000'000);
    const std::string good = request.SerializeAsString();
    for (size_t bit = 0; bit < good.size() * 8; ++bit) {
        std::string bad = good;
        bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
        ttrpc::Request judge;
        const auto view = decode_request(base::as_bytes(bad));
        if (!judge.ParseFromString(bad) || !view.ok()) continue;
        ++accepted;
        EXPECT_EQ(view->service, judge.service()) << bit;
        EXPECT_EQ(view->method, judge.method()) << bit;
        EXPECT_EQ(view->payload, judge.payload()) << bit;
        EXPECT_EQ(view->timeout.count(), judge.timeout_nano()) << bit;
    }
    EXPECT_GT(accepted, 100u);
}

}  // namespace
}  // namespace boxlite::rpc
