#include "runtime/tunnel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/id.h"
#include "runtime/write_pieces.h"

namespace boxlite {

namespace {

constexpr std::string_view kService = "boxlite.v1.Tunnel";

Result<base::Fd> own_descriptor(const rpc::Client& client) {
    base::Fd socket(::fcntl(client.fd(), F_DUPFD_CLOEXEC, 0));
    if (!socket.valid()) return base::errno_error(ErrorCode::kPortal, "keep a tunnel's socket");
    return socket;
}

}  // namespace

Result<std::shared_ptr<TunnelImpl>> TunnelImpl::open(std::shared_ptr<const BoxImpl> box, uint16_t port) {
    if (port == 0)
        return base::make_error(ErrorCode::kInvalidArgument, "there is no port 0; 1 to 65535 are ports");
    rpc::Client client = TRY(runtime::running(*box)).client;
    v1::TunnelRequest request;
    request.set_id(base::random_id(16));
    request.set_port(port);
    if (auto opened = client.call<v1::Empty>(kService, "Open", request); !opened.ok())
        return std::move(opened).error().with_context(fmt::format("box '{}'", box->config.name));
    rpc::Client writer = TRY(runtime::connect_client(box->folder));
    base::Fd reading = TRY(own_descriptor(client));
    base::Fd writing = TRY(own_descriptor(writer));
    std::shared_ptr<TunnelImpl> self(new TunnelImpl(std::move(box), request.id()));
    self->reading_.emplace(std::move(client), std::move(reading));
    self->writing_.emplace(std::move(writer), std::move(writing));
    return self;
}

Result<std::string> TunnelImpl::read(size_t max_bytes) {
    const std::scoped_lock lock(reading_->mutex);
    v1::ReadRequest request;
    request.set_id(id_);
    request.set_max_bytes(static_cast<uint32_t>(std::clamp<size_t>(max_bytes, 1, Tunnel::kMaxChunk)));
    auto response = TRY(reading_->client.call<v1::ReadResponse>(kService, "Read", request));
    return std::move(*response.mutable_data());
}

Result<void> TunnelImpl::write(std::string_view data, bool close) {
    const std::scoped_lock lock(writing_->mutex);
    return runtime::write_in_pieces(id_, data, close, [this](const v1::WriteRequest& request) {
        return writing_->client.call<v1::Empty>(kService, "Write", request);
    });
}

void TunnelImpl::disconnect() {
    for (const Lane* lane : {&*reading_, &*writing_}) ::shutdown(lane->socket.get(), SHUT_RDWR);
}

Result<std::string> Tunnel::read(size_t max_bytes) {
    return impl_->read(max_bytes);
}
Result<void> Tunnel::write(std::string_view data) {
    return impl_->write(data, false);
}
Result<void> Tunnel::close_write() {
    return impl_->write({}, true);
}
void Tunnel::disconnect() {
    impl_->disconnect();
}

Result<Tunnel> Box::tunnel(uint16_t port) {
    return Tunnel(TRY(TunnelImpl::open(impl_, port)));
}

}  // namespace boxlite
