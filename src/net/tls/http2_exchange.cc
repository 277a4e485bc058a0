#include "net/tls/http2_exchange.h"

#include <algorithm>
#include <cstring>

#include "net/http_head.h"

namespace boxlite::net::tls {

namespace {

// What a stream may have waiting for a box that does not take it, where a little that was compressed became
// much.
constexpr size_t kMaxWaiting = 8 << 20;
// So little left that the sender may go on.
constexpr size_t kLittle = 64 << 10;

using Headers = std::vector<std::pair<std::string, std::string>>;

std::string_view value_of(const Headers& headers, std::string_view name) {
    for (const auto& [key, value] : headers)
        if (key == name) return value;
    return {};
}

// The views live as long as the headers.
std::vector<nghttp2_nv> views(const Headers& headers) {
    std::vector<nghttp2_nv> all;
    const auto bytes = [](const std::string& text) {
        return const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(text.data()));
    };
    for (const auto& [name, value] : headers) {
        // What goes into a table of the other side's is not to be a secret's.
        const bool plain =
            name.starts_with(':') || name == "accept" || name == "user-agent" || name == "content-type";
        const auto flag = static_cast<uint8_t>(plain ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX);
        all.push_back({bytes(name), bytes(value), name.size(), value.size(), flag});
    }
    return all;
}

}  // namespace

void Http2::head_begins(Side side, int32_t stream) {
    if (side == Side::kBox && !find(side, stream)) {
        auto exchange = std::make_unique<Exchange>();
        exchange->box_stream = stream;
        exchanges_[stream] = std::move(exchange);
    }
    if (Exchange* exchange = find(side, stream)) {
        exchange->headers.clear();
        exchange->head_bytes = 0;
    }
}

bool Http2::header(Side side, int32_t stream, std::string_view name, std::string_view value) {
    Exchange* exchange = find(side, stream);
    if (!exchange) return false;
    exchange->head_bytes += name.size() + value.size() + 32;
    if (exchange->head_bytes > kMaxHead) return false;
    exchange->headers.emplace_back(name, value);
    return true;
}

void Http2::head_ends(Side side, int32_t stream, bool last) {
    Exchange* exchange = find(side, stream);
    if (!exchange || exchange->refused) return;
    const Side other = side == Side::kBox ? Side::kServer : Side::kBox;
    if (exchange->to(other).begun) return trailers(side, *exchange);
    side == Side::kBox ? request(*exchange, last) : answer(*exchange, last);
}

void Http2::request(Exchange& exchange, bool last) {
    Headers& headers = exchange.headers;
    const auto host = host_of_authority(value_of(headers, ":authority"));
    const std::string_view method = value_of(headers, ":method");
    exchange.head_only = method == "HEAD";
    std::string why;
    if (!host || value_of(headers, ":scheme") != "https" || method == "CONNECT")
        why = "it asks for another connection inside of this one";
    if (why.empty()) why = guard_.check(*host, method, value_of(headers, ":path"));
    if (why.empty()) why = rewrite(headers);
    if (!why.empty()) return refuse(exchange, why);
    const auto all = views(headers);
    const auto body = provider(exchange);
    exchange.server_stream =
        nghttp2_submit_request(server_, nullptr, all.data(), all.size(), last ? nullptr : &body, nullptr);
    for (auto& [name, value] : headers) wipe(value);
    headers.clear();
    exchange.up.begun = true;
    if (exchange.server_stream < 0) return reset(Side::kBox, exchange.box_stream, NGHTTP2_REFUSED_STREAM);
    by_server_[exchange.server_stream] = &exchange;
}

std::string Http2::rewrite(Headers& headers) {
    if (guard_.has_secrets()) {
        std::erase_if(headers, [](const auto& field) { return field.first == "accept-encoding"; });
        headers.emplace_back("accept-encoding", "identity");
    }
    for (auto& [name, value] : headers) {
        std::string why = name == ":path"         ? guard_.secrets.fill_target(guard_.host, value)
                          : name.starts_with(':') ? std::string()
                                                  : guard_.secrets.fill_field(guard_.host, value);
        if (!why.empty()) return why;
    }
    return {};
}

void Http2::answer(Exchange& exchange, bool last) {
    Headers headers = std::move(exchange.headers);
    exchange.headers.clear();
    const std::string status(value_of(headers, ":status"));
    const bool interim = status.starts_with('1');
    const bool empty = interim || exchange.head_only || status == "204" || status == "304";
    if (!empty)
        exchange.content = std::make_unique<AnswerContent>(guard_, value_of(headers, "content-encoding"));
    const bool rewrites = exchange.content && exchange.content->rewrites();
    std::erase_if(headers, [&](const auto& field) {
        const bool shape = field.first == "content-length" || field.first == "content-encoding";
        return field.first == "alt-svc" || (rewrites && shape);
    });
    if (guard_.has_secrets())
        for (auto& [name, value] : headers) replace_all(guard_.secrets.scrubs(), value);
    const auto all = views(headers);
    if (interim) {
        (void)nghttp2_submit_headers(box_, NGHTTP2_FLAG_NONE, exchange.box_stream, nullptr, all.data(),
                                     all.size(), nullptr);
        return;
    }
    const auto body = provider(exchange);
    exchange.down.begun = true;
    (void)nghttp2_submit_response(box_, exchange.box_stream, all.data(), all.size(), last ? nullptr : &body);
}

void Http2::trailers(Side from, Exchange& exchange) {
    Headers headers = std::move(exchange.headers);
    exchange.headers.clear();
    for (auto& [name, value] : headers) {
        if (from == Side::kServer && guard_.has_secrets()) replace_all(guard_.secrets.scrubs(), value);
        if (from == Side::kBox)
            if (const SecretName* secret = guard_.secrets.names().find_in_head(value))
                return refuse(exchange, secret->describe() + ", and not for trailers");
    }
    exchange.to(from == Side::kBox ? Side::kServer : Side::kBox).trailers = std::move(headers);
}

void Http2::data(Side side, int32_t stream, base::ByteView bytes) {
    Exchange* exchange = find(side, stream);
    if (!exchange || exchange->refused || (side == Side::kServer && !exchange->content)) {
        (void)nghttp2_session_consume(session(side), stream, bytes.size());
        return;
    }
    Exchange::Flow& flow = exchange->to(side == Side::kBox ? Side::kServer : Side::kBox);
    flow.unconsumed += bytes.size();
    if (side == Side::kBox) {
        const Placeholders& names = guard_.secrets.names();
        const SecretName* secret =
            names.empty()
                ? nullptr
                : exchange->seam.add(bytes, names.longest(), [&](auto text) { return names.find(text); });
        if (secret)
            return refuse(*exchange,
                          secret->describe() + ", and goes into headers only, not into what is sent");
        flow.waiting.insert(flow.waiting.end(), bytes.begin(), bytes.end());
        if (exchange->server_stream > 0) (void)nghttp2_session_resume_data(server_, exchange->server_stream);
        return;
    }
    std::string why = exchange->content->add(bytes, flow.waiting);
    if (flow.waiting.size() > kMaxWaiting) why = "its answer becomes too large when it is no more compressed";
    if (!why.empty()) return refuse(*exchange, why);
    (void)nghttp2_session_resume_data(box_, exchange->box_stream);
}

void Http2::message_ends(Side side, int32_t stream) {
    Exchange* exchange = find(side, stream);
    if (!exchange || exchange->refused) return;
    const Side other = side == Side::kBox ? Side::kServer : Side::kBox;
    Exchange::Flow& flow = exchange->to(other);
    if (side == Side::kServer && exchange->content)
        if (const std::string why = exchange->content->finish(flow.waiting); !why.empty())
            return refuse(*exchange, why);
    flow.ended = true;
    if (exchange->stream(other) > 0)
        (void)nghttp2_session_resume_data(session(other), exchange->stream(other));
}

nghttp2_data_provider Http2::provider(Exchange& exchange) {
    nghttp2_data_provider provider{};
    provider.source.ptr = &exchange;
    provider.read_callback = [](nghttp2_session* session, int32_t, uint8_t* out, size_t size, uint32_t* flags,
                                nghttp2_data_source* source, void* user) {
        auto& self = *static_cast<Http2*>(user);
        return self.give(session == self.box_ ? Side::kBox : Side::kServer,
                         *static_cast<Exchange*>(source->ptr), out, size, flags);
    };
    return provider;
}

ssize_t Http2::give(Side to, Exchange& exchange, uint8_t* out, size_t size, uint32_t* flags) {
    Exchange::Flow& flow = exchange.to(to);
    const size_t n = std::min(size, flow.waiting.size());
    std::copy_n(flow.waiting.begin(), n, out);
    flow.waiting.erase(flow.waiting.begin(), flow.waiting.begin() + static_cast<ptrdiff_t>(n));
    const Side from = to == Side::kBox ? Side::kServer : Side::kBox;
    if (flow.waiting.size() < kLittle && flow.unconsumed > 0) {
        const uint64_t taken = std::exchange(flow.unconsumed, 0);
        const int32_t stream = exchange.stream(from);
        // The connection's window counts, also when the stream is over.
        (void)(stream > 0 ? nghttp2_session_consume(session(from), stream, taken)
                          : nghttp2_session_consume_connection(session(from), taken));
    }
    if (!flow.waiting.empty()) return static_cast<ssize_t>(n);
    if (!flow.ended) return n > 0 ? static_cast<ssize_t>(n) : ssize_t{NGHTTP2_ERR_DEFERRED};
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!flow.trailers.empty()) {
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        const auto all = views(flow.trailers);
        (void)nghttp2_submit_trailer(session(to), exchange.stream(to), all.data(), all.size());
    }
    return static_cast<ssize_t>(n);
}

void Http2::release(Exchange& exchange) {
    (void)nghttp2_session_consume_connection(box_, std::exchange(exchange.up.unconsumed, 0));
    (void)nghttp2_session_consume_connection(server_, std::exchange(exchange.down.unconsumed, 0));
}

// The box is told with an answer, where none has begun.
void Http2::refuse(Exchange& exchange, const std::string& why) {
    guard_.refused(why);
    exchange.refused = true;
    exchange.headers.clear();
    exchange.up.waiting.clear();
    release(exchange);
    cancel(exchange);
    if (exchange.down.begun) return reset(Side::kBox, exchange.box_stream, NGHTTP2_INTERNAL_ERROR);
    std::string text = fmt::format("boxlite: {}\n", why);
    replace_all(guard_.secrets.scrubs(), text);
    append(exchange.down.waiting, text);
    exchange.down.begun = exchange.down.ended = true;
    const Headers headers = {{":status", "403"}, {"content-type", "text/plain"}};
    const auto all = views(headers);
    const auto body = provider(exchange);
    (void)nghttp2_submit_response(box_, exchange.box_stream, all.data(), all.size(), &body);
}

}  // namespace boxlite::net::tls
