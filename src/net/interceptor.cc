#include "net/interceptor.h"

#include "rpc/box.pb.h"

namespace boxlite::net {

Result<std::unique_ptr<Interceptor>> Interceptor::make(base::EventLoop& loop, base::Fd channel) {
    std::unique_ptr<Interceptor> self(new Interceptor());
    Interceptor* raw = self.get();
    self->socket_ =
        TRY(PacketSocket::make(loop, std::move(channel),
                               {.received = [raw](base::ByteView message, auto) { raw->receive(message); },
                                .closed = [raw] { raw->open_.clear(); }}));
    return self;
}

Result<void> Interceptor::take(const std::string& host, uint16_t port, bool by_request, base::Fd inside,
                               const base::Fd& outside, Refused refused) {
    if (!socket_->open())
        return base::make_error(ErrorCode::kNetwork, "the process that looks into TLS connections is gone");
    if (open_.size() >= kMaxConnections)
        return base::make_error(ErrorCode::kResourceExhausted, "{} TLS connections are looked into already",
                                kMaxConnections);
    std::vector<base::Fd> ends;
    ends.push_back(std::move(inside));
    ends.push_back(TRY(outside.duplicate()));
    v1::Intercepted message;
    message.set_id(next_id_);
    message.set_host(host);
    message.set_port(port);
    message.set_by_request(by_request);
    open_[next_id_++] = std::move(refused);
    socket_->send(message.SerializeAsString(), std::move(ends));
    return {};
}

void Interceptor::receive(base::ByteView message) {
    v1::InterceptReport report;
    if (!report.ParseFromArray(message.data(), static_cast<int>(message.size()))) return;
    const auto found = open_.find(report.id());
    if (found == open_.end()) return;
    if (report.rule().empty())
        open_.erase(found);
    else
        found->second(report.rule());
}

}  // namespace boxlite::net
