#include "net/flow.h"

#include <algorithm>

namespace boxlite::net {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReportDelay{50};
constexpr int kMaxPending = 1000;
constexpr milliseconds kRepeatTime{1000};
constexpr size_t kMaxRecent = 64;
constexpr int64_t kNsPerMs = 1'000'000;

}  // namespace

Flow FlowLog::open(Protocol protocol, const Endpoint& peer, const Verdict& verdict) {
    ++open_;
    ++total_;
    if (protocol == Protocol::kTcp) ++open_tcp_;
    Flow flow;
    flow.started_at_ns = base::realtime_ns();
    flow.protocol = protocol;
    flow.peer = peer;
    flow.name = verdict.name;
    flow.rule = verdict.rule;
    return flow;
}

void FlowLog::close(const Flow& flow) {
    --open_;
    if (flow.protocol == Protocol::kTcp) {
        --open_tcp_;
        if (!flow.error.empty() && !flow.refused) ++tcp_errors_;
    }
    v1::Flow record;
    record.set_started_at_ns(flow.started_at_ns);
    record.set_protocol(protocol_name(flow.protocol));
    record.set_incoming(flow.incoming);
    record.set_name(flow.name);
    record.set_address(flow.peer.address.to_string());
    record.set_port(flow.peer.port);
    record.set_allowed(true);
    record.set_rule(flow.rule);
    record.set_sent_bytes(flow.sent_bytes);
    record.set_received_bytes(flow.received_bytes);
    const int64_t lasted = base::realtime_ns() - flow.started_at_ns;
    record.set_duration_ms(static_cast<uint64_t>(std::max<int64_t>(0, lasted / kNsPerMs)));
    record.set_error(flow.error);
    add(std::move(record));
}

void FlowLog::refuse(std::string_view protocol, const Endpoint& peer, std::string_view name,
                     std::string_view rule) {
    ++refused_;
    if (protocol == protocol_name(Protocol::kTcp)) ++tcp_errors_;
    const auto now = base::Clock::now();
    while (!recent_.empty() && now - recent_.front().at > kRepeatTime) recent_.pop_front();
    std::string what = fmt::format("{} {} {} {}", protocol, peer.to_string(), name, rule);
    if (std::any_of(recent_.begin(), recent_.end(), [&](const Refusal& r) { return r.what == what; })) return;
    if (recent_.size() == kMaxRecent) recent_.pop_front();
    recent_.push_back({std::move(what), now});
    v1::Flow record;
    record.set_started_at_ns(base::realtime_ns());
    record.set_protocol(std::string(protocol));
    record.set_name(std::string(name));
    if (peer != Endpoint{}) record.set_address(peer.address.to_string());
    record.set_port(peer.port);
    record.set_rule(std::string(rule));
    add(std::move(record));
}

void FlowLog::add(v1::Flow flow) {
    if (pending_.flows_size() >= kMaxPending) {
        pending_.set_missed(pending_.missed() + 1);
        return;
    }
    *pending_.add_flows() = std::move(flow);
    if (std::exchange(scheduled_, true)) return;
    loop_.after(kReportDelay, [this] {
        scheduled_ = false;
        flush();
    });
}

void FlowLog::flush() {
    if (pending_.flows_size() > 0 || pending_.missed() > 0) report_(std::exchange(pending_, {}));
}

}  // namespace boxlite::net
