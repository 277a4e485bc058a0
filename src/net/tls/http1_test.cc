#include "net/tls/http1.h"

#include <brotli/encode.h>
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include "net/tls/testing.h"

namespace boxlite::net::tls {
namespace {

using namespace testing;  // NOLINT: the setting that all of it is about

class Http1Test : public ::testing::Test {
  protected:
    std::string box_says(std::string_view text, size_t piece = 3) {
        for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
            http_.from_box(base::as_bytes(text.substr(0, piece)));
        return take(http_.to_server);
    }
    std::string server_says(std::string_view text, size_t piece = 5) {
        for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
            http_.from_server(base::as_bytes(text.substr(0, piece)));
        return take(http_.to_box);
    }
    static std::string take(base::Bytes& bytes) {
        std::string text(base::as_text(bytes));
        bytes.clear();
        return text;
    }
    Setting setting_;
    Http1 http_{setting_.guard()};
};

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: api.example.com\r\n";

TEST_F(Http1Test, ReplacesInHeadersAndAsksForPlainContent) {
    EXPECT_EQ(box_says(std::string(kGet) +
                       "Authorization: Bearer <BOXLITE_SECRET:TOKEN>\r\nAccept-Encoding: gzip, br\r\n\r\n"),
              std::string(kGet) + "Authorization: Bearer s3cret-value\r\nAccept-Encoding: identity\r\n\r\n");
}

TEST_F(Http1Test, TakesValuesOutOfHeadersAndChunks) {
    box_says(std::string(kGet) + "\r\n");
    EXPECT_EQ(
        server_says("HTTP/1.1 200 s3cret-value\r\nX-Echo: s3cret-value\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "9\r\nyou: s3cr\r\n8;x=y\r\net-value\r\n0\r\nTrailer: s3cret-value\r\n\r\n",
                    1000),
        "HTTP/1.1 200 <BOXLITE_SECRET:TOKEN>\r\nX-Echo: <BOXLITE_SECRET:TOKEN>\r\n"
        "Transfer-Encoding: chunked\r\n\r\n1b\r\nyou: <BOXLITE_SECRET:TOKEN>\r\n0\r\n\r\n");
    EXPECT_FALSE(http_.over());
}

TEST_F(Http1Test, ALengthThatChangesBecomesChunks) {
    box_says(std::string(kGet) + "\r\n");
    EXPECT_EQ(
        server_says("HTTP/1.1 200 OK\r\nContent-Length: 14\r\nAlt-Svc: h3\r\n\r\n[s3cret-value]", 1000),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n18\r\n[<BOXLITE_SECRET:TOKEN>]\r\n0\r\n\r\n");
}

TEST_F(Http1Test, OneAfterTheOtherAndPipelined) {
    const std::string post = "POST /p HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 3\r\n\r\nabc";
    box_says(std::string(kGet) + "\r\n" + post + "HEAD / HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
    const std::string out = server_says(
        "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n");
    EXPECT_EQ(out,
              "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
              "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n");
    EXPECT_FALSE(http_.over());
    EXPECT_TRUE(setting_.refused.empty());
}

TEST_F(Http1Test, TheEndOfTheConnectionEndsAnAnswer) {
    box_says("GET / HTTP/1.0\r\nHost: api.example.com\r\n\r\n");
    EXPECT_EQ(server_says("HTTP/1.0 200 OK\r\n\r\nx s3cret-val"), "HTTP/1.0 200 OK\r\n\r\nx ");
    http_.server_ended();
    EXPECT_EQ(take(http_.to_box), "s3cret-val");
    EXPECT_TRUE(http_.over());
}

TEST_F(Http1Test, PlaceholdersElsewhereAreRefused) {
    for (const std::string& request : {
             std::string(kGet) + "X: <BOXLITE_SECRET:OTHER>\r\n\r\n",
             std::string("GET /<BOXLITE_SECRET:TOKEN> HTTP/1.1\r\nHost: api.example.com\r\n\r\n"),
             std::string("GET /?k=%3cBOXLITE_SECRET:TOKEN%3e HTTP/1.1\r\nHost: api.example.com\r\n\r\n"),
             std::string("POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 30\r\n\r\n"
                         "12 <BOXLITE_SECRET:TOKEN> 4567"),
         }) {
        Setting setting;
        Http1 http(setting.guard());
        for (const char c : request) http.from_box(base::as_bytes({&c, 1}));
        EXPECT_TRUE(http.over()) << request;
        EXPECT_EQ(setting.refused.size(), 1u) << request;
        EXPECT_EQ(base::as_text(http.to_box).substr(0, 22), "HTTP/1.1 403 Forbidden") << request;
        EXPECT_EQ(base::as_text(http.to_server).find('>'), std::string::npos);
        EXPECT_EQ(base::as_text(http.to_server).find(kValue), std::string::npos);
    }
}

TEST_F(Http1Test, OtherHostsAndTunnelsAreRefused) {
    for (const char* request :
         {"GET / HTTP/1.1\r\nHost: other.example.org\r\n\r\n",
          "GET https://other.example.org/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
          "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com\r\n\r\n",
          "\x16\x03\x01 hello\r\n\r\n", "GET / HTTP/1.1\r\nHost: api.example.com\r\nX : y\r\n\r\n",
          "GET / HTTP/1.1\rX: y\r\nHost: api.example.com\r\n\r\n"}) {
        Setting setting;
        Http1 http(setting.guard());
        http.from_box(base::as_bytes(request));
        EXPECT_TRUE(http.over()) << request;
        EXPECT_TRUE(http.to_server.empty()) << request;
    }
}

TEST_F(Http1Test, RulesAreForEachRequest) {
    setting_.policy =
        Policy::parse({std::vector<std::string>{"GET https://api.example.com/v1/*"}, {}}).value();
    Guard guard = setting_.guard();
    guard.by_request = true;
    Http1 http(guard);
    http.from_box(base::as_bytes("GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\n\r\n"));
    EXPECT_FALSE(http.over());
    http.from_server(base::as_bytes("HTTP/1.1 204 OK\r\n\r\n"));
    http.to_box.clear();
    http.from_box(base::as_bytes("GET /v1/../admin HTTP/1.1\r\nHost: api.example.com\r\n\r\n"));
    EXPECT_TRUE(http.over());
    EXPECT_EQ(setting_.refused.size(), 1u);
}

TEST_F(Http1Test, AWebSocketIsPassedOnAndWatched) {
    const std::string ask =
        "GET /ws HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    EXPECT_EQ(
        box_says(ask +
                 "Sec-WebSocket-Extensions: permessage-deflate\r\nX: <BOXLITE_SECRET:TOKEN>\r\n\r\n\x81more"),
        ask + "X: s3cret-value\r\nAccept-Encoding: identity\r\n\r\n");
    EXPECT_EQ(server_says("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x05hello"),
              "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x05hello");
    EXPECT_EQ(take(http_.to_server), "\x81more");
    EXPECT_EQ(server_says("\x81\x0cs3cret-value", 100), "");
    EXPECT_TRUE(http_.over());
}

std::string gzip(std::string_view text) {
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
    std::string out(text.size() + 1000, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(out.size() - stream.avail_out);
    deflateEnd(&stream);
    return out;
}

std::string brotli(std::string_view text) {
    std::string out(text.size() + 100, '\0');
    size_t size = out.size();
    BrotliEncoderCompress(5, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_TEXT, text.size(),
                          reinterpret_cast<const uint8_t*>(text.data()), &size,
                          reinterpret_cast<uint8_t*>(out.data()));
    out.resize(size);
    return out;
}

std::string zstd(std::string_view text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
}

std::string compressed_answer(std::string_view coding, std::string_view body) {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Encoding: {}\r\nContent-Length: {}\r\n\r\n{}", coding,
                       body.size(), body);
}

TEST_F(Http1Test, CompressedAnswersAreLookedInto) {
    const std::string text = "[s3cret-value]";
    for (const auto& [coding, body] :
         {std::pair{"gzip", gzip(text)}, {"br", brotli(text)}, {"zstd", zstd(text)}, {"zstd", ""}}) {
        box_says(std::string(kGet) + "\r\n");
        EXPECT_EQ(
            server_says(compressed_answer(coding, body), 10000),
            body.empty()
                ? fmt::format("HTTP/1.1 200 OK\r\nContent-Encoding: {}\r\nContent-Length: 0\r\n\r\n", coding)
                : "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "18\r\n[<BOXLITE_SECRET:TOKEN>]\r\n0\r\n\r\n")
            << coding;
    }
    box_says(std::string(kGet) + "\r\n");
    server_says(compressed_answer("compress", "xyz"));
    EXPECT_TRUE(http_.over());
    ASSERT_EQ(setting_.refused.size(), 1u);
    EXPECT_NE(setting_.refused[0].find("'compress'"), std::string::npos);
}

TEST_F(Http1Test, LargeCompressedAnswersComeInPieces) {
    std::string text;
    for (int i = 0; text.size() < (1 << 20); ++i) text += fmt::format("line {}\n", i * i);
    text.resize(16 * ContentDecoder::kPiece);  // of which the last is full, too
    for (const auto& [coding, body] :
         {std::pair{"gzip", gzip(text)}, {"br", brotli(text)}, {"zstd", zstd(text)}}) {
        Setting setting;
        Http1 http(setting.guard());
        http.from_box(base::as_bytes(std::string(kGet) + "\r\n"));
        const std::string answer = compressed_answer(coding, body);
        for (size_t at = 0; at < answer.size(); at += 777)
            http.from_server(base::as_bytes(std::string_view(answer).substr(at, 777)));
        std::string_view rest = base::as_text(http.to_box);
        rest.remove_prefix(rest.find("\r\n\r\n") + 4);
        ChunkedBody chunks;
        base::Bytes got;
        chunks.take(base::as_bytes(rest), &got);
        EXPECT_TRUE(chunks.done()) << coding;
        EXPECT_EQ(base::as_text(got), text) << coding;
    }
}

TEST_F(Http1Test, DamagedCompressionEndsTheConnection) {
    const std::string text(1000, 'x');
    for (const auto& [coding, body] :
         {std::pair{"gzip", gzip(text)}, {"br", brotli(text)}, {"zstd", zstd(text)}}) {
        const std::string cut = body.substr(0, body.size() - 1);
        for (const std::string& bad : {cut, body + "tail", "?" + body}) {
            Setting setting;
            Http1 http(setting.guard());
            http.from_box(base::as_bytes(std::string(kGet) + "\r\n"));
            http.from_server(base::as_bytes(compressed_answer(coding, bad)));
            EXPECT_TRUE(http.over()) << coding;
            EXPECT_FALSE(base::as_text(http.to_box).ends_with("0\r\n\r\n")) << coding;
            ASSERT_EQ(setting.refused.size(), 1u) << coding;
            EXPECT_NE(setting.refused[0].find(bad == cut ? "stops in the middle" : "damaged"),
                      std::string::npos)
                << coding << ": " << setting.refused[0];
        }
    }
}

// What two readers could take for different answers.
TEST_F(Http1Test, AmbiguousAnswersEndTheConnection) {
    for (const char* answer :
         {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
          "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/2 200\r\n\r\n",
          "HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n",
          "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n", "\x15\x03\r\n\r\n"}) {
        Setting setting;
        Http1 http(setting.guard());
        http.from_box(base::as_bytes(std::string(kGet) + "\r\n"));
        http.from_server(base::as_bytes(answer));
        EXPECT_TRUE(http.over()) << answer;
        EXPECT_EQ(base::as_text(http.to_box).substr(0, 12), "HTTP/1.1 502") << answer;
    }
    Http1 http(setting_.guard());
    http.from_server(base::as_bytes("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    EXPECT_TRUE(http.over());
}

TEST_F(Http1Test, WithoutSecretsAnswersStayAsTheyAre) {
    Http1 http(setting_.guard("plain.example.net"));
    http.from_box(base::as_bytes("GET / HTTP/1.1\r\nHost: plain.example.net\r\nAccept-Encoding: br\r\n\r\n"));
    EXPECT_EQ(base::as_text(http.to_server),
              "GET / HTTP/1.1\r\nHost: plain.example.net\r\nAccept-Encoding: br\r\n\r\n");
    const std::string_view answer = "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nxyz";
    http.from_server(base::as_bytes(answer));
    EXPECT_EQ(base::as_text(http.to_box), answer);
}

}  // namespace
}  // namespace boxlite::net::tls
