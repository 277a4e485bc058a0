#include "net/tls/session.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "net/tls/http1.h"
#include "net/tls/http2.h"

namespace boxlite::net::tls {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHandshakeBudget{30'000};
// For a box to take its last words.
constexpr milliseconds kDrainBudget{2'000};
// Then others get their turn.
constexpr int kMaxRounds = 32;

}  // namespace

struct Session::Callbacks {
    static Session& self(SSL* ssl) { return *static_cast<Session*>(SSL_get_app_data(ssl)); }

    // Called twice: when the box's opening is there, and when the server has been talked to.
    static int hello(SSL* ssl, int* alert, void*) {
        Session& session = self(ssl);
        if (session.refused_) {
            *alert = SSL_AD_ACCESS_DENIED;
            return SSL_CLIENT_HELLO_ERROR;
        }
        if (session.phase_ == Phase::kBox) return SSL_CLIENT_HELLO_SUCCESS;
        if (!std::exchange(session.hello_seen_, true)) take_protocols(session, ssl);
        return SSL_CLIENT_HELLO_RETRY;
    }

    static void take_protocols(Session& session, SSL* ssl) {
        const uint8_t* bytes = nullptr;
        size_t size = 0;
        if (::SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &bytes,
                                        &size) != 1)
            return;
        std::string_view list = base::as_text({bytes, size});
        list.remove_prefix(std::min<size_t>(2, list.size()));
        session.other_protocols_ = !list.empty();
        while (!list.empty()) {
            const size_t n = std::min(list.size(), size_t{1} + static_cast<unsigned char>(list[0]));
            const std::string_view one = list.substr(0, n);
            if (one == kAlpnHttp2 || one == kAlpnHttp1) session.offered_ += one;
            list.remove_prefix(n);
        }
        if (!session.offered_.empty()) session.other_protocols_ = false;
    }

    static int select(SSL* ssl, const uint8_t** out, uint8_t* out_size, const uint8_t* in, unsigned in_size,
                      void*) {
        const uint8_t* chosen = nullptr;
        unsigned size = 0;
        ::SSL_get0_alpn_selected(self(ssl).server_.stream->ssl(), &chosen, &size);
        const std::string wanted = size > 0
                                       ? static_cast<char>(size) + std::string(base::as_text({chosen, size}))
                                       : std::string(kAlpnHttp1);
        const size_t at = base::as_text({in, in_size}).find(wanted);
        if (at == std::string_view::npos) return SSL_TLSEXT_ERR_NOACK;
        *out = in + at + 1;
        *out_size = static_cast<uint8_t>(wanted.size() - 1);
        return SSL_TLSEXT_ERR_OK;
    }
};

void Session::prepare(SSL_CTX* context) {
    ::SSL_CTX_set_client_hello_cb(context, Callbacks::hello, nullptr);
    ::SSL_CTX_set_alpn_select_cb(context, Callbacks::select, nullptr);
}

Result<std::unique_ptr<Session>> Session::start(World world, Guard guard, base::Fd inside, base::Fd outside,
                                                std::function<void()> over) {
    std::unique_ptr<Session> self(new Session(world, std::move(guard), std::move(outside), std::move(over)));
    Ssl ssl(::SSL_new(world.contexts.to_box.get()));
    if (!ssl) return openssl_error("begin TLS");
    ::SSL_set_accept_state(ssl.get());
    SSL_set_app_data(ssl.get(), self.get());
    TRY(world.authority.certify(ssl.get(), self->guard_.host));
    self->box_.stream.emplace(TRY(Stream::make(std::move(ssl), std::move(inside))));
    Session* raw = self.get();
    TRY(world.loop.watch(raw->box_.stream->fd(), raw->box_.events = EPOLLIN,
                         [raw](uint32_t events) { raw->ready(raw->box_, events); }));
    raw->timer_ = world.loop.after(kHandshakeBudget, [raw] {
        raw->timer_ = 0;
        raw->refuse("TLS did not begin in time");
    });
    return self;
}

Session::~Session() {
    if (timer_) world_.loop.cancel(timer_);
    for (Side* side : {&box_, &server_})
        if (side->stream && !side->gone) world_.loop.unwatch(side->stream->fd());
    // netd has it open, too, for what it counts.
    const int outside = server_.stream ? server_.stream->fd() : outside_.get();
    if (outside >= 0) ::shutdown(outside, SHUT_RDWR);
}

void Session::ready(Side& side, uint32_t events) {
    // What it left behind is still read; epoll would repeat itself meanwhile.
    if ((events & (EPOLLHUP | EPOLLERR)) && !(events & EPOLLIN)) {
        world_.loop.unwatch(side.stream->fd());
        side.gone = true;
        if (&side == &box_ && phase_ != Phase::kTalk) return end();
    }
    run();
}

void Session::run() {
    if (phase_ < Phase::kTalk && !begin()) return update_watches();
    if (phase_ == Phase::kTalk) talk();
    if (phase_ == Phase::kDrain) {
        uint8_t rest[4096];
        ssize_t n;
        do n = ::recv(box_.stream->fd(), rest, sizeof rest, MSG_DONTWAIT);
        while (n > 0);
        if (n == 0 || errno != EAGAIN) return end();
    }
    update_watches();
}

// True when both sides are ready to talk.
bool Session::begin() {
    if (phase_ == Phase::kHello && !hear_hello()) return false;
    if (phase_ == Phase::kServer && !greet_server()) return false;
    return phase_ == Phase::kBox && greet_box();
}

bool Session::hear_hello() {
    const Io io = box_.stream->handshake();
    if (io == Io::kFailed || io == Io::kEnded) return end(), false;
    if (!hello_seen_) return false;
    if (other_protocols_) return refuse("its TLS is for another protocol than HTTP"), false;
    auto ssl = make_client(world_.contexts, guard_.host, offered_);
    auto stream =
        ssl.ok() ? Stream::make(std::move(ssl).value(), std::move(outside_)) : Result<Stream>(ssl.error());
    if (!stream.ok()) return refuse(stream.error().message), false;
    server_.stream.emplace(std::move(stream).value());
    phase_ = Phase::kServer;
    if (!world_.loop
             .watch(server_.stream->fd(), server_.events = EPOLLIN,
                    [this](uint32_t events) { ready(server_, events); })
             .ok())
        return end(), false;
    return true;
}

bool Session::greet_server() {
    const Io io = server_.stream->handshake();
    if (io == Io::kBlocked) return false;
    if (io != Io::kMoved) {
        const std::string why = verification_problem(server_.stream->ssl());
        return refuse(why.empty() ? "the server does not begin TLS: " + server_.stream->problem()
                                  : "the server's certificate is not good: " + why),
               false;
    }
    phase_ = Phase::kBox;
    return true;
}

bool Session::greet_box() {
    const Io io = box_.stream->handshake();
    if (io == Io::kBlocked) return false;
    if (io != Io::kMoved)
        return refuse("the box does not take BoxLite's certificate for the server: " +
                      box_.stream->problem()),
               false;
    start_talking();
    return true;
}

void Session::start_talking() {
    world_.loop.cancel(std::exchange(timer_, 0));
    phase_ = Phase::kTalk;
    const uint8_t* chosen = nullptr;
    unsigned size = 0;
    ::SSL_get0_alpn_selected(box_.stream->ssl(), &chosen, &size);
    if (base::as_text({chosen, size}) == kAlpnHttp2.substr(1))
        conversation_ = std::make_unique<Http2>(guard_);
    else
        conversation_ = std::make_unique<Http1>(guard_);
}

bool Session::read(Side& side) {
    const bool box = &side == &box_;
    if (side.ended || conversation_->over() ||
        !(box ? conversation_->wants_box() : conversation_->wants_server()))
        return false;
    base::Bytes bytes;
    switch (side.stream->read(bytes)) {
        case Io::kMoved:
            box ? conversation_->from_box(bytes) : conversation_->from_server(bytes);
            ::explicit_bzero(bytes.data(), bytes.size());
            return true;
        case Io::kBlocked:
            return false;
        case Io::kEnded:
        case Io::kFailed:
            side.ended = true;
            box ? conversation_->box_ended() : conversation_->server_ended();
            return true;
    }
    return false;
}

bool Session::write(Side& side) {
    const bool box = &side == &box_;
    base::Bytes& bytes = box ? conversation_->to_box : conversation_->to_server;
    if (bytes.empty() || (!box && conversation_->over())) return false;
    switch (side.stream->write(bytes)) {
        case Io::kMoved:
            return true;
        case Io::kBlocked:
            return false;
        case Io::kEnded:
        case Io::kFailed:
            bytes.clear();
            if (!box && side.ended) return false;
            if (box) return end(), false;
            side.ended = true;
            conversation_->server_ended();
            return true;
    }
    return false;
}

void Session::talk() {
    for (int round = 0; round < kMaxRounds && phase_ == Phase::kTalk; ++round) {
        bool moved = read(box_);
        moved |= read(server_);
        conversation_->written();
        moved |= write(server_);
        if (phase_ == Phase::kTalk) moved |= write(box_);
        if (phase_ != Phase::kTalk) return;
        if (conversation_->over() && conversation_->to_box.empty()) return drain();
        if (!moved) return;
    }
}

void Session::drain() {
    phase_ = Phase::kDrain;
    box_.stream->finish();
    server_.stream->finish();
    timer_ = world_.loop.after(kDrainBudget, [this] {
        timer_ = 0;
        end();
    });
}

void Session::watch(Side& side, uint32_t events) {
    if (!side.stream || side.gone || std::exchange(side.events, events) == events) return;
    (void)world_.loop.change(side.stream->fd(), events);
}

void Session::update_watches() {
    if (phase_ == Phase::kOver) return;
    const bool talks = phase_ == Phase::kTalk;
    // Whether to read is told by who has room for it.
    uint32_t box = talks ? box_.stream->wanted() & EPOLLOUT : 0;
    uint32_t server = talks ? server_.stream->wanted() & EPOLLOUT : 0;
    if (talks) {
        if (conversation_->wants_box() && !box_.ended) box |= EPOLLIN;
        if (!conversation_->to_box.empty()) box |= EPOLLOUT;
        if (conversation_->wants_server() && !server_.ended) server |= EPOLLIN;
        if (!conversation_->to_server.empty()) server |= EPOLLOUT;
    } else if (phase_ == Phase::kServer) {
        server = server_.stream->wanted();
    } else {
        box = phase_ == Phase::kDrain ? uint32_t{EPOLLIN} : box_.stream->wanted();
    }
    watch(box_, box);
    watch(server_, server);
}

// Before the conversation: the box gets an alert.
void Session::refuse(const std::string& why) {
    guard_.refused(why);
    refused_ = true;
    if (phase_ == Phase::kHello || phase_ == Phase::kServer) (void)box_.stream->handshake();
    end();
}

void Session::end() {
    if (std::exchange(phase_, Phase::kOver) == Phase::kOver) return;
    world_.loop.post([over = over_] { over(); });
}

}  // namespace boxlite::net::tls
