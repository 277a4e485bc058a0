// HTTP/2 between the box and a server (RFC 9113): two sessions, one with each, and a stream of one for each
// stream of the other. Thread safety: the loop's thread.
#pragma once

#include <nghttp2/nghttp2.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/tls/answer.h"
#include "net/tls/conversation.h"

namespace boxlite::net::tls {

class Http2 final : public Conversation {
  public:
    static constexpr size_t kMaxStreams = 100;
    static constexpr size_t kMaxHead = 64 << 10;
    // Of one stream and of all together, that may be on their way: what memory is needed for.
    static constexpr int kStreamWindow = 256 << 10, kWindow = 1 << 20;

    explicit Http2(Guard guard);
    ~Http2() override;

    void from_box(base::ByteView bytes) override;
    void from_server(base::ByteView bytes) override;
    void box_ended() override;
    void server_ended() override;
    void written() override;
    bool wants_box() const override { return to_server.size() < kBuffer && to_box.size() < kBuffer; }
    bool wants_server() const override { return wants_box(); }

  private:
    struct Callbacks;
    struct Exchange;
    using Headers = std::vector<std::pair<std::string, std::string>>;
    enum class Side { kBox, kServer };

    nghttp2_session* session(Side side) const { return side == Side::kBox ? box_ : server_; }
    void receive(Side side, base::ByteView bytes);
    Exchange* find(Side side, int32_t stream);

    // What a session tells.
    void head_begins(Side side, int32_t stream);
    bool header(Side side, int32_t stream, std::string_view name, std::string_view value);
    // `last`: no content follows.
    void head_ends(Side side, int32_t stream, bool last);
    void data(Side side, int32_t stream, base::ByteView bytes);
    void message_ends(Side side, int32_t stream);
    void stream_closed(Side side, int32_t stream, uint32_t error);
    void server_leaves();
    static nghttp2_data_provider provider(Exchange& exchange);

    void request(Exchange& exchange, bool last);
    std::string rewrite(Headers& headers);
    void answer(Exchange& exchange, bool last);
    void trailers(Side from, Exchange& exchange);
    void refuse(Exchange& exchange, const std::string& why);
    void reset(Side side, int32_t stream, uint32_t error);
    // At the server.
    void cancel(Exchange& exchange);
    // What was received and goes nowhere counts no more against the connection.
    void release(Exchange& exchange);
    ssize_t give(Side to, Exchange& exchange, uint8_t* out, size_t size, uint32_t* flags);

    Guard guard_;
    nghttp2_session* box_ = nullptr;
    nghttp2_session* server_ = nullptr;
    std::map<int32_t, std::unique_ptr<Exchange>> exchanges_;  // by the box's stream
    std::map<int32_t, Exchange*> by_server_;
};

}  // namespace boxlite::net::tls
