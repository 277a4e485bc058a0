#include "net/tls/http1.h"

#include <algorithm>

namespace boxlite::net::tls {

namespace {

constexpr size_t kMaxPending = 100;
constexpr std::string_view kEnd = "\r\n";

void append(base::Bytes& out, base::ByteView bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename... Names>
bool is_one_of(std::string_view name, Names... names) {
    return (equal_fold(name, names) || ...);
}

}  // namespace

void Http1::from_box(base::ByteView bytes) {
    append(held_, bytes);
    size_t taken = 0;
    while (!over_ && taken < held_.size()) {
        const base::ByteView rest = base::ByteView(held_).subspan(taken);
        size_t n = 0;
        if (state_ == State::kHead)
            n = take_request(base::as_text(rest));
        else if (state_ == State::kOpaque) {
            append(to_server, rest);
            n = rest.size();
        } else if (state_ != State::kAsked)
            n = take_request_body(rest);
        if (n == 0) break;
        taken += n;
    }
    held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(taken));
}

size_t Http1::take_request(std::string_view held) {
    if (held[0] == '\r' || held[0] == '\n') return 1;
    if (pending_.size() >= kMaxPending) return 0;
    const auto head = read_http_request(base::as_bytes(held));
    if (!head && held.size() <= kMaxHttpHead) return 0;
    std::string why = head ? head->problem : "its HTTP request is too long";
    if (why.empty() && head->tunnel) why = "it asks for another connection inside of this one";
    if (why.empty()) why = guard_.check(head->host, head->method, head->target);
    if (why.empty()) why = rewrite(*head);
    if (!why.empty()) {
        refuse(why);
        return 0;
    }
    pending_.push_back({head->method == "HEAD", head->upgrade, head->version_1_0});
    body_ = head->body;
    chunks_ = ChunkedBody();
    state_ = head->chunked   ? State::kChunked
             : body_ > 0     ? State::kBody
             : head->upgrade ? State::kAsked
                             : State::kHead;
    return head->size;
}

// "" or why not. Nothing is written then.
std::string Http1::rewrite(const HttpHead& head) {
    const auto text = split_head(head.text);
    if (!text) return "its HTTP request has a malformed field";
    std::string target(head.target);
    if (std::string why = guard_.secrets.fill_target(guard_.host, target); !why.empty()) return why;
    std::string out = fmt::format("{} {} HTTP/1.{}\r\n", head.method, target, head.version_1_0 ? 0 : 1);
    for (const Field& field : text->fields) {
        const bool extensions = head.upgrade && equal_fold(field.name, "sec-websocket-extensions");
        if (guard_.has_secrets() && (extensions || equal_fold(field.name, "accept-encoding"))) continue;
        std::string value(field.value);
        if (std::string why = guard_.secrets.fill_field(guard_.host, value); !why.empty()) return why;
        out += fmt::format("{}: {}\r\n", field.name, value);
        wipe(value);
    }
    // What is compressed cannot be looked into.
    if (guard_.has_secrets()) out += "Accept-Encoding: identity\r\n";
    out += kEnd;
    append(to_server, out);
    wipe(out);
    return {};
}

size_t Http1::take_request_body(base::ByteView held) {
    const bool chunked = state_ == State::kChunked;
    const size_t n = chunked ? chunks_.take(held) : std::min<uint64_t>(body_, held.size());
    const base::ByteView bytes = held.first(n);
    const Placeholders& names = guard_.secrets.names();
    const SecretName* secret =
        names.empty() ? nullptr
                      : seam_.add(bytes, names.longest(), [&](std::string_view t) { return names.find(t); });
    if (chunked && chunks_.bad()) refuse("its HTTP request has a malformed body");
    if (secret) refuse(secret->describe() + ", and goes into headers only, not into what is sent");
    if (over_) return 0;
    append(to_server, bytes);
    if (!chunked) body_ -= n;
    if (chunked ? chunks_.done() : body_ == 0)
        state_ = !pending_.empty() && pending_.back().upgrade ? State::kAsked : State::kHead;
    return n;
}

void Http1::from_server(base::ByteView bytes) {
    append(held_answer_, bytes);
    size_t taken = 0;
    while (!over_ && taken < held_answer_.size()) {
        const base::ByteView rest = base::ByteView(held_answer_).subspan(taken);
        size_t n = 0;
        if (answer_state_ == State::kOpaque) {
            look_at_opaque(rest);
            n = rest.size();
        } else {
            n = answer_state_ == State::kHead ? take_answer(base::as_text(rest)) : take_answer_body(rest);
        }
        if (n == 0) break;
        taken += n;
    }
    held_answer_.erase(held_answer_.begin(), held_answer_.begin() + static_cast<ptrdiff_t>(taken));
}

size_t Http1::take_answer(std::string_view held) {
    if (pending_.empty()) {
        fail("the server answers what was not asked");
        return 0;
    }
    const auto response = read_http_response(held);
    if (!response) {
        if (held.size() > kMaxHttpHead) fail("its answer is too long");
        return 0;
    }
    if (!response->problem.empty()) {
        fail(response->problem);
        return 0;
    }
    begin_answer(*response);
    return response->size;
}

void Http1::begin_answer(const HttpResponse& response) {
    const Pending& request = pending_.front();
    if (response.status == 101) {
        if (!request.upgrade || state_ != State::kAsked)
            return fail("the server changes the protocol without being asked");
        write_answer_head(response, false);
        state_ = answer_state_ = State::kOpaque;
        return from_box({});
    }
    if (response.status < 200) return write_answer_head(response, false);
    const bool empty =
        request.head || response.status == 204 || response.status == 304 || response.length == 0u;
    if (!empty) content_ = std::make_unique<AnswerContent>(guard_, response.coding);
    framed_ = !empty && !request.version_1_0 && (response.chunked || content_->rewrites());
    write_answer_head(response, !empty);
    if (empty) return end_answer();
    answer_body_ = response.length.value_or(0);
    answer_chunks_ = ChunkedBody();
    answer_state_ = response.chunked ? State::kChunked : response.length ? State::kBody : State::kUntilEnd;
}

void Http1::write_answer_head(const HttpResponse& response, bool content) {
    std::string out(response.head.start);
    const bool rewrites = content && content_->rewrites();
    out += kEnd;
    for (const Field& field : response.head.fields) {
        if (content && is_one_of(field.name, "transfer-encoding", "trailer")) continue;
        if (content && framed_ && equal_fold(field.name, "content-length")) continue;
        if (rewrites && is_one_of(field.name, "content-encoding", "content-length")) continue;
        // It would lead around what is looked at here.
        if (equal_fold(field.name, "alt-svc")) continue;
        out += fmt::format("{}: {}\r\n", field.name, field.value);
    }
    if (framed_ && content) out += "Transfer-Encoding: chunked\r\n";
    out += kEnd;
    if (guard_.has_secrets()) replace_all(guard_.secrets.scrubs(), out);
    append(to_box, out);
}

size_t Http1::take_answer_body(base::ByteView held) {
    if (answer_state_ == State::kChunked) {
        base::Bytes data;
        const size_t n = answer_chunks_.take(held, &data);
        pass_answer(data);
        if (over_) return n;
        if (answer_chunks_.bad()) fail("its answer has a malformed body");
        if (answer_chunks_.done()) end_answer();
        return n;
    }
    const bool counted = answer_state_ == State::kBody;
    const size_t n = counted ? std::min<uint64_t>(answer_body_, held.size()) : held.size();
    pass_answer(held.first(n));
    if (!over_ && counted && (answer_body_ -= n) == 0) end_answer();
    return n;
}

void Http1::pass_answer(base::ByteView bytes) {
    base::Bytes out;
    if (const std::string why = content_->add(bytes, out); !why.empty()) return fail(why);
    write_piece(out);
}

void Http1::write_piece(base::ByteView bytes) {
    if (bytes.empty()) return;
    if (framed_) append(to_box, fmt::format("{:x}\r\n", bytes.size()));
    append(to_box, bytes);
    if (framed_) append(to_box, kEnd);
}

void Http1::end_answer() {
    if (content_) {
        base::Bytes out;
        if (const std::string why = content_->finish(out); !why.empty()) return fail(why);
        write_piece(out);
        if (framed_) append(to_box, "0\r\n\r\n");
    }
    // Its end is the connection's.
    if (content_ && pending_.front().version_1_0) over_ = true;
    content_.reset();
    framed_ = false;
    answer_state_ = State::kHead;
    const bool declined = pending_.front().upgrade && state_ == State::kAsked && pending_.size() == 1;
    pending_.pop_front();
    if (declined) state_ = State::kHead;
    if (box_ended_ && pending_.empty()) over_ = true;
    if (!over_) from_box({});
}

void Http1::look_at_opaque(base::ByteView bytes) {
    const auto& scrubs = guard_.secrets.scrubs();
    size_t longest = 0;
    for (const Replacement& scrub : scrubs) longest = std::max(longest, scrub.text.size());
    const bool found = longest > 0 && opaque_seam_.add(bytes, longest, [&](std::string_view text) {
        return std::any_of(scrubs.begin(), scrubs.end(),
                           [&](const Replacement& s) { return text.find(s.text) != std::string_view::npos; });
    });
    if (found) return fail("the server sends the value of a secret back, in another protocol than HTTP");
    append(to_box, bytes);
}

void Http1::box_ended() {
    box_ended_ = true;
    if (pending_.empty() || state_ == State::kOpaque) over_ = true;
}

void Http1::server_ended() {
    if (over_) return;
    if (answer_state_ == State::kUntilEnd) end_answer();
    over_ = true;
}

// A request is refused.
void Http1::refuse(const std::string& why) {
    // It is among those that wait once its head has gone out.
    const bool begun = state_ != State::kHead;
    const bool first = pending_.size() == (begun ? 1 : 0);
    end(first ? "403 Forbidden" : "", why);
}

// The server does not do what it has to.
void Http1::fail(const std::string& why) {
    end(pending_.empty() ? "" : "502 Bad Gateway", why);
}

// The box is told, where it waits for just this answer.
void Http1::end(std::string_view status, const std::string& why) {
    guard_.refused(why);
    over_ = true;
    if (answer_state_ != State::kHead || status.empty()) return;
    std::string text = fmt::format("boxlite: {}\n", why);
    replace_all(guard_.secrets.scrubs(), text);
    append(to_box, fmt::format("HTTP/1.1 {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n"
                               "Connection: close\r\n\r\n{}",
                               status, text.size(), text));
}

}  // namespace boxlite::net::tls
