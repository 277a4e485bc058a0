// HTTP/1.1 between the box and a server. What follows an upgrade (a WebSocket, RFC 6455) is passed on as it
// is, and ended when the value of a secret comes back in it. Thread safety: the loop's thread.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "net/http_head.h"
#include "net/tls/answer.h"
#include "net/tls/conversation.h"
#include "net/tls/http_response.h"

namespace boxlite::net::tls {

class Http1 final : public Conversation {
  public:
    explicit Http1(Guard guard) : guard_(std::move(guard)) {}

    void from_box(base::ByteView bytes) override;
    void from_server(base::ByteView bytes) override;
    void box_ended() override;
    void server_ended() override;
    bool wants_box() const override { return to_server.size() + held_.size() < kBuffer + kMaxHttpHead; }

  private:
    // How far a message of either side is.
    enum class State { kHead, kBody, kChunked, kUntilEnd, kAsked, kOpaque };
    struct Pending {
        bool head = false;  // no content will come, whatever the answer says
        bool upgrade = false;
        bool version_1_0 = false;
    };

    size_t take_request(std::string_view held);
    std::string rewrite(const HttpHead& head);
    std::string write_field(const Field& field, bool upgrade);
    size_t take_request_body(base::ByteView held);
    void pass_request_body(base::ByteView bytes);
    size_t take_answer(std::string_view held);
    void begin_answer(const HttpResponse& response);
    void write_answer_head(const HttpResponse& response, bool content);
    size_t take_answer_body(base::ByteView held);
    void pass_answer(base::ByteView bytes);
    void end_answer();
    void write_piece(base::ByteView bytes);
    void look_at_opaque(base::ByteView bytes);
    void refuse(const std::string& why);
    void fail(const std::string& why);
    void end(std::string_view status, const std::string& why);

    Guard guard_;
    base::Bytes held_, held_answer_;  // of either side, not taken yet
    State state_ = State::kHead, answer_state_ = State::kHead;
    uint64_t body_ = 0, answer_body_ = 0;
    ChunkedBody chunks_, answer_chunks_;
    Seam seam_, opaque_seam_;
    std::deque<Pending> pending_;  // requests without a whole answer
    std::unique_ptr<AnswerContent> content_;
    bool framed_ = false;  // the answer goes to the box in chunks
    bool box_ended_ = false;
};

}  // namespace boxlite::net::tls
