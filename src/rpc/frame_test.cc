#include "rpc/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace boxlite::rpc {
namespace {

std::string frame_bytes(uint32_t stream, const std::string& data, FrameType type = FrameType::kRequest) {
    std::string bytes(kFrameHeaderSize, '\0');
    encode_header({.length = static_cast<uint32_t>(data.size()), .stream = stream, .type = type},
                  reinterpret_cast<uint8_t*>(bytes.data()));
    return bytes + data;
}

// Feeds `bytes` in steps of at most `step`; the frames' data in order, or the error's message last.
std::vector<std::string> read_frames(const std::string& bytes, size_t step, FrameReader& reader) {
    std::vector<std::string> frames;
    for (size_t at = 0; at < bytes.size();) {
        const auto space = reader.space();
        const size_t n = std::min({space.size(), step, bytes.size() - at});
        std::copy_n(bytes.data() + at, n, space.data());
        reader.commit(n);
        at += n;
        for (;;) {
            const auto frame = reader.next();
            if (!frame) {
                frames.push_back(frame.error().message);
                return frames;
            }
            if (!*frame) break;
            frames.emplace_back(base::as_text((*frame)->data));
        }
    }
    return frames;
}

TEST(Frame, HeaderIsAsTheProtocolDraws) {
    uint8_t bytes[kFrameHeaderSize];
    encode_header({.length = 0x00010203, .stream = 0x0a0b0c0d, .type = FrameType::kResponse}, bytes);
    const uint8_t drawn[] = {0x00, 0x01, 0x02, 0x03, 0x0a, 0x0b, 0x0c, 0x0d, 0x02, 0x00};
    EXPECT_TRUE(std::equal(std::begin(bytes), std::end(bytes), drawn));
}

TEST(Frame, RefusesWhatIsNotUnaryTtrpc) {
    const auto error_of = [](std::array<uint8_t, 10> bytes) { return decode_header(bytes).error().message; };
    EXPECT_NE(error_of({0x00, 0x40, 0x00, 0x01, 0, 0, 0, 1, 1, 0}).find("4194305 bytes"), std::string::npos);
    EXPECT_NE(error_of({0, 0, 0, 0, 0, 0, 0, 2, 1, 0}).find("even stream 2"), std::string::npos);
    EXPECT_NE(error_of({0, 0, 0, 0, 0, 0, 0, 0, 1, 0}).find("even stream 0"), std::string::npos);
    EXPECT_NE(error_of({0, 0, 0, 0, 0, 0, 0, 1, 3, 0}).find("unknown type 3"), std::string::npos);
    EXPECT_NE(error_of({0, 0, 0, 0, 0, 0, 0, 1, 0, 0}).find("unknown type 0"), std::string::npos);
    EXPECT_NE(error_of({0, 0, 0, 0, 0, 0, 0, 1, 1, 2}).find("flags 0x2"), std::string::npos);
    EXPECT_TRUE(decode_header(std::array<uint8_t, 10>{0x00, 0x40, 0x00, 0x00, 0, 0, 0, 1, 1, 0}).ok());
}

TEST(Frame, AnyCutGivesTheSameFrames) {
    const std::vector<std::string> data = {
        "one", "", std::string(70'000, 'x'), "four", std::string(300'000, 'y'), "6"};
    std::string bytes;
    for (size_t i = 0; i < data.size(); ++i) bytes += frame_bytes(static_cast<uint32_t>(2 * i + 1), data[i]);
    for (const size_t step : {size_t{1}, size_t{3}, size_t{4096}, size_t{65536}, bytes.size()}) {
        FrameReader reader;
        EXPECT_EQ(read_frames(bytes, step, reader), data) << step;
        EXPECT_FALSE(reader.partial());
    }
}

TEST(Frame, HalfAFrameIsPartial) {
    FrameReader reader;
    const std::string bytes = frame_bytes(1, "abcdef");
    EXPECT_TRUE(read_frames(bytes.substr(0, 12), 64, reader).empty());
    EXPECT_TRUE(reader.partial());
    EXPECT_EQ(read_frames(bytes.substr(12), 64, reader), std::vector<std::string>{"abcdef"});
    EXPECT_FALSE(reader.partial());
}

TEST(Frame, TheLargestFrameFitsAndOneMoreByteDoesNot) {
    FrameReader reader;
    const std::string largest(kMaxFrameData, 'z');
    EXPECT_EQ(read_frames(frame_bytes(1, largest), 1 << 20, reader), std::vector<std::string>{largest});
    const auto refused = read_frames(frame_bytes(1, largest + "z").substr(0, 10), 64, reader);
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_NE(refused[0].find("4194305"), std::string::npos);
}

}  // namespace
}  // namespace boxlite::rpc
