#include "image/layer_stream.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "image/layer_testing.h"

namespace boxlite::image {
namespace {

using testing::gzip;
using testing::make_layer;
using testing::StringBlob;
using testing::TestLayer;
using testing::zstd;

// Text that compresses, but not to nothing.
std::string sample(size_t size) {
    std::string out;
    uint32_t seed = 7;
    while (out.size() < size) {
        seed = seed * 1664525 + 1013904223;
        out += "line " + std::to_string(seed >> 16) + "\n";
    }
    out.resize(size);
    return out;
}

Result<std::string> read(const TestLayer& layer, size_t piece = SIZE_MAX, LayerLimits limits = {}) {
    StringBlob blob(layer.blob, piece);
    LayerStream stream(blob, layer.spec, limits);
    std::string content;
    for (;;) {
        const auto chunk = TRY(stream.next());
        if (chunk.empty()) break;
        content += base::as_text(chunk);
    }
    TRY(stream.finish());
    EXPECT_EQ(stream.archive_bytes(), content.size());
    return content;
}

Error error_of(const TestLayer& layer, LayerLimits limits = {}) {
    const auto result = read(layer, SIZE_MAX, limits);
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
}

constexpr Compression kAll[] = {Compression::kNone, Compression::kGzip, Compression::kZstd};

TEST(LayerStream, UnpacksEveryCompression) {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{262'144}, size_t{3'000'000}}) {
        const std::string content = sample(size);
        for (const Compression compression : kAll) {
            const TestLayer layer = make_layer(content, compression);
            for (const size_t piece : {size_t{3}, size_t{4096}, SIZE_MAX}) {
                if (piece == 3 && size > 300'000) continue;
                const auto result = read(layer, piece);
                ASSERT_TRUE(result.ok()) << result.error().message;
                EXPECT_TRUE(*result == content) << size;
            }
        }
    }
}

TEST(LayerStream, SeveralMembersAndFramesAreOneStream) {
    const std::string one = sample(300'000);
    const std::string two = sample(10);
    for (const auto& blob :
         {gzip(one) + gzip("") + gzip(two), zstd(one) + zstd("") + zstd(two),
          // a skippable frame, as zstd:chunked adds them
          zstd(one) + std::string("\x51\x2a\x4d\x18\x03\x00\x00\x00xyz", 11) + zstd(two)}) {
        TestLayer layer = make_layer(one + two);
        layer.blob = blob;
        layer.spec.digest.reset();
        layer.spec.size.reset();
        layer.spec.media_type.clear();
        const auto result = read(layer);
        ASSERT_TRUE(result.ok()) << result.error().message;
        EXPECT_TRUE(*result == one + two);
    }
}

// Row 9 of the faults: what is not what it was announced to be is refused.
TEST(LayerStream, RefusesWrongDigests) {
    for (const Compression compression : kAll) {
        TestLayer layer = make_layer(sample(100'000), compression);
        const TestLayer other = make_layer(sample(99'999), compression);
        TestLayer wrong = layer;
        wrong.spec.digest = other.spec.digest;
        EXPECT_NE(error_of(wrong).message.find("was expected"), std::string::npos);
        wrong = layer;
        wrong.spec.diff_id = other.spec.diff_id;
        EXPECT_EQ(error_of(wrong).code, ErrorCode::kImage);
        EXPECT_NE(error_of(wrong).message.find("archive"), std::string::npos);
    }
}

TEST(LayerStream, RefusesWrongSizes) {
    TestLayer layer = make_layer(sample(100'000));
    ++*layer.spec.size;
    EXPECT_NE(error_of(layer).message.find("were announced"), std::string::npos);
    *layer.spec.size -= 2;
    EXPECT_NE(error_of(layer).message.find("larger than"), std::string::npos);
}

TEST(LayerStream, RefusesMediaTypesThatDoNotFit) {
    for (const Compression compression : kAll) {
        for (const Compression other : kAll) {
            TestLayer layer = make_layer(sample(1000), compression);
            layer.spec.media_type = make_layer("", other).spec.media_type;
            EXPECT_EQ(read(layer).ok(), compression == other);
        }
    }
    TestLayer layer = make_layer(sample(1000));
    layer.spec.media_type = "application/vnd.oci.image.layer.v1.tar+encrypted";
    EXPECT_EQ(error_of(layer).code, ErrorCode::kUnsupported);
    layer.spec.media_type = "application/vnd.oci.image.config.v1+json";
    EXPECT_EQ(error_of(layer).code, ErrorCode::kUnsupported);
}

TEST(LayerStream, RefusesTruncatedAndDamagedData) {
    for (const Compression compression : {Compression::kGzip, Compression::kZstd}) {
        const TestLayer layer = make_layer(sample(400'000), compression);
        const auto refused = [&](const std::string& blob) {
            TestLayer damaged = layer;
            damaged.blob = blob;
            damaged.spec.digest.reset();
            damaged.spec.size.reset();
            const Error error = error_of(damaged);
            EXPECT_EQ(error.code, ErrorCode::kImage) << error.message;
        };
        refused(layer.blob.substr(0, layer.blob.size() / 2));
        refused(layer.blob.substr(0, layer.blob.size() - 1));
        refused(layer.blob.substr(0, 3));
        refused(layer.blob + "garbage");
        std::string flipped = layer.blob;
        flipped[flipped.size() / 2] ^= 0x10;
        refused(flipped);
    }
}

TEST(LayerStream, ChecksumsInTheCompressedDataCount) {
    TestLayer layer = make_layer(sample(1000), Compression::kGzip);
    layer.blob[layer.blob.size() - 6] ^= 1;  // CRC32
    layer.spec.digest.reset();
    layer.spec.diff_id.reset();
    EXPECT_EQ(error_of(layer).code, ErrorCode::kImage);
}

// Row 8: bombs.
TEST(LayerStream, StopsAtTheByteLimit) {
    for (const Compression compression : kAll) {
        const TestLayer layer = make_layer(sample(2'000'000), compression);
        EXPECT_TRUE(read(layer, SIZE_MAX, {.max_bytes = 2'000'000}).ok());
        const Error error = error_of(layer, {.max_bytes = 1'999'999});
        EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
        EXPECT_NE(error.message.find("BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE"), std::string::npos);
    }
}

TEST(LayerStream, StopsAtTheRatioLimit) {
    const TestLayer layer = make_layer(std::string(8'000'000, '\0'), Compression::kZstd);
    EXPECT_TRUE(read(layer).ok());
    EXPECT_TRUE(read(layer, SIZE_MAX, {.max_ratio = 100, .ratio_from_bytes = 8'000'000}).ok());
    const Error error = error_of(layer, {.max_ratio = 100, .ratio_from_bytes = 1'000'000});
    EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
    EXPECT_NE(error.message.find("bomb"), std::string::npos);
}

TEST(LayerStream, CanBeDroppedAtAnyTime) {
    const TestLayer layer = make_layer(sample(10'000'000), Compression::kGzip);
    for (int chunks = 0; chunks < 5; ++chunks) {
        StringBlob blob(layer.blob);
        LayerStream stream(blob, layer.spec, {});
        for (int i = 0; i < chunks; ++i) ASSERT_TRUE(stream.next().ok());
    }
}

class FailingBlob : public BlobReader {
  public:
    Result<size_t> read(std::span<uint8_t> buffer) override {
        if (++reads_ > 3) return base::make_error(ErrorCode::kNetwork, "the connection broke");
        std::fill(buffer.begin(), buffer.end(), uint8_t{'x'});
        return buffer.size();
    }

  private:
    int reads_ = 0;
};

TEST(LayerStream, PassesOnTheReadersError) {
    FailingBlob blob;
    LayerStream stream(blob, {}, {});
    const auto result = stream.finish();
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kNetwork);
}

TEST(LayerLimits, ComeFromTheEnvironment) {
    ASSERT_EQ(::setenv("BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE", "1234", 1), 0);
    EXPECT_EQ(LayerLimits::from_environment()->max_bytes, 1234U);
    for (const char* wrong : {"0", "-1", "20G", "x"}) {
        ASSERT_EQ(::setenv("BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE", wrong, 1), 0);
        EXPECT_EQ(LayerLimits::from_environment().error().code, ErrorCode::kConfig) << wrong;
    }
    ASSERT_EQ(::unsetenv("BOXLITE_MAX_LAYER_DECOMPRESSED_SIZE"), 0);
    EXPECT_EQ(LayerLimits::from_environment()->max_bytes, uint64_t{20} << 30);
}

}  // namespace
}  // namespace boxlite::image
