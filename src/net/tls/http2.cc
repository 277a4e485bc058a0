#include "net/tls/http2.h"

#include <algorithm>

#include "net/tls/http2_exchange.h"

namespace boxlite::net::tls {

struct Http2::Callbacks {
    // nghttp2 says which session calls, and both have the same conversation.
    static Side side(const Http2& self, const nghttp2_session* session) {
        return session == self.box_ ? Side::kBox : Side::kServer;
    }
    static Http2& self(void* user) { return *static_cast<Http2*>(user); }

    static int begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
        self(user).head_begins(side(self(user), session), frame->hd.stream_id);
        return 0;
    }
    static int header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t, void* user) {
        const bool kept =
            self(user).header(side(self(user), session), frame->hd.stream_id,
                              base::as_text({name, name_size}), base::as_text({value, value_size}));
        return kept ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    static int frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
        Http2& http = self(user);
        const Side from = side(http, session);
        if (frame->hd.type == NGHTTP2_GOAWAY && from == Side::kServer) http.server_leaves();
        const bool last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
        if (frame->hd.type == NGHTTP2_HEADERS) http.head_ends(from, frame->hd.stream_id, last);
        const bool message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
        if (message && last) http.message_ends(from, frame->hd.stream_id);
        return 0;
    }
    static int data(nghttp2_session* session, uint8_t, int32_t stream, const uint8_t* bytes, size_t size,
                    void* user) {
        self(user).data(side(self(user), session), stream, {bytes, size});
        return 0;
    }
    static int closed(nghttp2_session* session, int32_t stream, uint32_t error, void* user) {
        self(user).stream_closed(side(self(user), session), stream, error);
        return 0;
    }

    // A request that was taken back before it went out.
    static int not_sent(nghttp2_session* session, const nghttp2_frame* frame, int, void* user) {
        if (frame->hd.type == NGHTTP2_HEADERS && side(self(user), session) == Side::kServer)
            self(user).stream_closed(Side::kServer, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
        return 0;
    }

    static nghttp2_session_callbacks* make() {
        nghttp2_session_callbacks* callbacks = nullptr;
        if (nghttp2_session_callbacks_new(&callbacks) != 0) return nullptr;
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, closed);
        nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, not_sent);
        return callbacks;
    }
};

Http2::Http2(Guard guard) : guard_(std::move(guard)) {
    nghttp2_session_callbacks* callbacks = Callbacks::make();
    nghttp2_option* options = nullptr;
    if (callbacks && nghttp2_option_new(&options) == 0) {
        nghttp2_option_set_no_auto_window_update(options, 1);
        (void)nghttp2_session_server_new2(&box_, callbacks, this, options);
        (void)nghttp2_session_client_new2(&server_, callbacks, this, options);
    }
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    if (!box_ || !server_) {
        over_ = true;
        return;
    }
    const nghttp2_settings_entry to_box_settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams},
                                                      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow}};
    const nghttp2_settings_entry to_server_settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow}};
    (void)nghttp2_submit_settings(box_, NGHTTP2_FLAG_NONE, to_box_settings, std::size(to_box_settings));
    (void)nghttp2_submit_settings(server_, NGHTTP2_FLAG_NONE, to_server_settings,
                                  std::size(to_server_settings));
    for (nghttp2_session* session : {box_, server_})
        (void)nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, kWindow);
    written();
}

Http2::~Http2() {
    nghttp2_session_del(box_);
    nghttp2_session_del(server_);
}

void Http2::from_box(base::ByteView bytes) {
    receive(Side::kBox, bytes);
}

void Http2::from_server(base::ByteView bytes) {
    receive(Side::kServer, bytes);
}

void Http2::receive(Side side, base::ByteView bytes) {
    if (over_) return;
    if (nghttp2_session_mem_recv(session(side), bytes.data(), bytes.size()) < 0) over_ = true;
    written();
}

void Http2::written() {
    if (!box_ || !server_) return;
    for (const Side side : {Side::kBox, Side::kServer}) {
        base::Bytes& out = side == Side::kBox ? to_box : to_server;
        while (out.size() < kBuffer) {
            const uint8_t* bytes = nullptr;
            const ssize_t n = nghttp2_session_mem_send(session(side), &bytes);
            if (n < 0) over_ = true;
            if (n <= 0) break;
            out.insert(out.end(), bytes, bytes + n);
        }
    }
    const auto done = [](nghttp2_session* s) {
        return !nghttp2_session_want_read(s) && !nghttp2_session_want_write(s);
    };
    if (done(box_) || done(server_)) over_ = true;
}

void Http2::box_ended() {
    over_ = true;
}

void Http2::server_ended() {
    over_ = true;
}

Http2::Exchange* Http2::find(Side side, int32_t stream) {
    if (side == Side::kServer) {
        const auto found = by_server_.find(stream);
        return found == by_server_.end() ? nullptr : found->second;
    }
    const auto found = exchanges_.find(stream);
    return found == exchanges_.end() ? nullptr : found->second.get();
}

void Http2::stream_closed(Side side, int32_t stream, uint32_t error) {
    Exchange* exchange = find(side, stream);
    if (!exchange) return;
    if (side == Side::kBox) {
        exchange->box_open = false;
        cancel(*exchange);
    } else {
        by_server_.erase(stream);
        exchange->server_stream = -1;
        // Not when it has all been said: the rest is still on its way to the box.
        if (exchange->box_open && !exchange->down.ended)
            reset(Side::kBox, exchange->box_stream,
                  error == NGHTTP2_NO_ERROR ? uint32_t{NGHTTP2_INTERNAL_ERROR} : error);
    }
    if (exchange->box_open || exchange->server_stream > 0) return;
    release(*exchange);
    exchanges_.erase(exchange->box_stream);
}

// It takes no new requests, and the box should send none.
void Http2::server_leaves() {
    (void)nghttp2_submit_goaway(box_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(box_),
                                NGHTTP2_NO_ERROR, nullptr, 0);
}

// Once: a request that has not gone out is taken back by that, and resetting it after all would be an error.
void Http2::cancel(Exchange& exchange) {
    if (exchange.server_stream < 0 || std::exchange(exchange.cancelled, true)) return;
    reset(Side::kServer, exchange.server_stream, NGHTTP2_CANCEL);
}

void Http2::reset(Side side, int32_t stream, uint32_t error) {
    (void)nghttp2_submit_rst_stream(session(side), NGHTTP2_FLAG_NONE, stream, error);
}

}  // namespace boxlite::net::tls
