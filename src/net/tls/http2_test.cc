#include "net/tls/http2.h"

#include <gtest/gtest.h>

#include <map>

#include "net/tls/testing.h"

namespace boxlite::net::tls {
namespace {

using namespace testing;  // NOLINT: the setting that all of it is about
using Headers = std::vector<std::pair<std::string, std::string>>;

// One end of a connection: the box's program, or the server. nghttp2 is who judges what we send.
class Peer {
  public:
    explicit Peer(bool server) {
        nghttp2_session_callbacks* callbacks = nullptr;
        nghttp2_session_callbacks_new(&callbacks);
        nghttp2_session_callbacks_set_on_header_callback(
            callbacks, [](nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                          const uint8_t* value, size_t value_size, uint8_t, void* user) {
                static_cast<Peer*>(user)->headers[frame->hd.stream_id].emplace_back(
                    base::as_text({name, name_size}), base::as_text({value, value_size}));
                return 0;
            });
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
            callbacks,
            [](nghttp2_session*, uint8_t, int32_t stream, const uint8_t* bytes, size_t size, void* user) {
                static_cast<Peer*>(user)->body[stream] += base::as_text({bytes, size});
                return 0;
            });
        nghttp2_session_callbacks_set_on_frame_recv_callback(
            callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
                if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM && frame->hd.type != NGHTTP2_SETTINGS)
                    static_cast<Peer*>(user)->ended.push_back(frame->hd.stream_id);
                return 0;
            });
        nghttp2_session_callbacks_set_on_stream_close_callback(
            callbacks, [](nghttp2_session*, int32_t stream, uint32_t error, void* user) {
                static_cast<Peer*>(user)->closed[stream] = error;
                return 0;
            });
        server ? nghttp2_session_server_new(&session, callbacks, this)
               : nghttp2_session_client_new(&session, callbacks, this);
        nghttp2_session_callbacks_del(callbacks);
        nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    }
    ~Peer() { nghttp2_session_del(session); }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    base::Bytes sent() {
        base::Bytes out;
        const uint8_t* bytes = nullptr;
        for (ssize_t n; (n = nghttp2_session_mem_send(session, &bytes)) > 0;)
            out.insert(out.end(), bytes, bytes + n);
        return out;
    }
    static std::vector<nghttp2_nv> views(const Headers& all) {
        std::vector<nghttp2_nv> views;
        for (const auto& [name, value] : all)
            views.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                             reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                             value.size(), NGHTTP2_NV_FLAG_NONE});
        return views;
    }
    // A body that is sent in frames of a size.
    nghttp2_data_provider source(std::string text) {
        sending = std::move(text);
        nghttp2_data_provider provider{};
        provider.source.ptr = &sending;
        provider.read_callback = [](nghttp2_session*, int32_t, uint8_t* out, size_t size, uint32_t* flags,
                                    nghttp2_data_source* from, void* user) -> ssize_t {
            auto& text = *static_cast<std::string*>(from->ptr);
            const size_t n = std::min({size, text.size(), static_cast<Peer*>(user)->frame});
            std::copy_n(text.begin(), n, out);
            text.erase(0, n);
            if (text.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
            return static_cast<ssize_t>(n);
        };
        return provider;
    }
    std::string value(int32_t stream, std::string_view name) {
        for (const auto& [key, text] : headers[stream])
            if (key == name) return text;
        return "";
    }

    nghttp2_session* session = nullptr;
    std::map<int32_t, Headers> headers;
    std::map<int32_t, std::string> body;
    std::map<int32_t, uint32_t> closed;
    std::vector<int32_t> ended;
    std::string sending;
    size_t frame = 7;
};

class Http2Test : public ::testing::Test {
  protected:
    // Until nobody has anything to say.
    void run() {
        for (bool moved = true; moved;) {
            moved = false;
            const auto pass = [&moved](base::Bytes bytes, const auto& to) {
                if (bytes.empty()) return;
                moved = true;
                to(bytes);
            };
            pass(box_.sent(), [this](const base::Bytes& bytes) { http_.from_box(bytes); });
            pass(server_.sent(), [this](const base::Bytes& bytes) { http_.from_server(bytes); });
            http_.written();
            pass(std::exchange(http_.to_server, {}), [this](const base::Bytes& b) {
                nghttp2_session_mem_recv(server_.session, b.data(), b.size());
            });
            pass(std::exchange(http_.to_box, {}), [this](const base::Bytes& b) {
                nghttp2_session_mem_recv(box_.session, b.data(), b.size());
            });
        }
    }
    int32_t ask(const Headers& extra, const char* path = "/", std::string body = "",
                const char* host = kHost) {
        Headers headers = {{":method", body.empty() ? "GET" : "POST"},
                           {":scheme", "https"},
                           {":authority", host},
                           {":path", path}};
        headers.insert(headers.end(), extra.begin(), extra.end());
        const auto views = Peer::views(headers);
        const auto source = box_.source(body);
        const int32_t stream = nghttp2_submit_request(box_.session, nullptr, views.data(), views.size(),
                                                      body.empty() ? nullptr : &source, nullptr);
        run();
        return stream;
    }
    void answer(int32_t stream, const Headers& extra, const std::string& body) {
        Headers headers = {{":status", "200"}};
        headers.insert(headers.end(), extra.begin(), extra.end());
        const auto views = Peer::views(headers);
        const auto source = server_.source(body);
        nghttp2_submit_response(server_.session, stream, views.data(), views.size(), &source);
        run();
    }
    Setting setting_;
    Peer box_{false}, server_{true};
    Http2 http_{setting_.guard()};
};

TEST_F(Http2Test, ReplacesOnTheWayOutAndTakesOutOnTheWayBack) {
    const int32_t stream =
        ask({{"authorization", "Bearer <BOXLITE_SECRET:TOKEN>"}, {"accept-encoding", "gzip"}});
    EXPECT_EQ(server_.value(1, "authorization"), "Bearer s3cret-value");
    EXPECT_EQ(server_.value(1, "accept-encoding"), "identity");
    answer(1, {{"x-echo", "s3cret-value"}, {"content-length", "17"}}, "you: s3cret-value");
    EXPECT_EQ(box_.value(stream, "x-echo"), kPlaceholder);
    EXPECT_EQ(box_.value(stream, "content-length"), "");
    EXPECT_EQ(box_.body[stream], std::string("you: ") + kPlaceholder);
    EXPECT_EQ(box_.closed[stream], 0u);
    EXPECT_EQ(box_.closed.size(), 1u);
    EXPECT_FALSE(http_.over());
}

TEST_F(Http2Test, LargeBodiesBothWaysAndManyStreams) {
    box_.frame = server_.frame = 16 << 10;
    const std::string body(3 << 20, 'b');
    const int32_t first = ask({}, "/up", body);
    EXPECT_EQ(server_.body[1].size(), body.size());
    answer(1, {}, std::string(5 << 20, 'a'));
    EXPECT_EQ(box_.body[first].size(), size_t{5} << 20);
    for (int i = 0; i < 300; ++i) {
        const int32_t stream = ask({});
        answer(server_.ended.back(), {}, "ok");
        EXPECT_EQ(box_.body[stream], "ok");
    }
    EXPECT_TRUE(setting_.refused.empty());
}

TEST_F(Http2Test, WhatIsRefusedHasAnAnswerAndTheRestGoesOn) {
    const std::tuple<Headers, const char*, const char*, const char*> cases[] = {
        {{{"x", kOtherPlaceholder}}, "/", "", "other.example.org"},
        {{}, "/%3CBOXLITE_SECRET:TOKEN%3E", "", "not into a path"},
        {{}, "/", "key=<BOXLITE_SECRET:TOKEN>", "not into what is sent"},
    };
    for (const auto& [headers, path, body, word] : cases) {
        const int32_t stream = ask(headers, path, body);
        EXPECT_EQ(box_.value(stream, ":status"), "403") << word;
        EXPECT_NE(box_.body[stream].find(word), std::string::npos) << box_.body[stream];
        ASSERT_FALSE(setting_.refused.empty());
        EXPECT_NE(setting_.refused.back().find(word), std::string::npos);
    }
    const int32_t stream = ask({}, "/", "", "other.example.org");
    EXPECT_EQ(box_.value(stream, ":status"), "403");
    const size_t before = server_.ended.size();
    const int32_t good = ask({});
    ASSERT_EQ(server_.ended.size(), before + 1);
    answer(server_.ended.back(), {}, "good");
    EXPECT_EQ(box_.body[good], "good");
}

TEST_F(Http2Test, AnAnswerThatIsCutShortIsNoWholeOne) {
    const int32_t stream = ask({});
    nghttp2_submit_rst_stream(server_.session, NGHTTP2_FLAG_NONE, 1, NGHTTP2_ENHANCE_YOUR_CALM);
    run();
    EXPECT_EQ(box_.closed[stream], NGHTTP2_ENHANCE_YOUR_CALM);
    const int32_t other = ask({});
    nghttp2_submit_rst_stream(box_.session, NGHTTP2_FLAG_NONE, other, NGHTTP2_CANCEL);
    run();
    EXPECT_EQ(server_.closed.size(), 2u);
}

TEST_F(Http2Test, WhatIsNoHttp2EndsIt) {
    http_.from_box(base::as_bytes("GET / HTTP/1.1\r\n\r\n and more than the preface is long"));
    EXPECT_TRUE(http_.over());
}

}  // namespace
}  // namespace boxlite::net::tls
