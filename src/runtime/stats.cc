#include <thread>

#include "runtime/box_impl.h"

namespace boxlite {

namespace {

Result<BoxStats> read_stats(rpc::Client& client) {
    const auto answer = TRY(client.call<v1::BoxStats>(runtime::kBoxService, "Stats", v1::Empty()));
    const v1::GuestStats& guest = answer.guest();
    const v1::NetworkCounters& network = answer.network();
    return BoxStats{
        .time_ns = answer.time_ns(),
        .cpu_ns = guest.cpu_ns(),
        .memory_bytes = guest.memory_bytes(),
        .memory_limit_bytes = guest.memory_limit(),
        .processes = guest.processes(),
        .commands_executed = answer.commands_executed(),
        .exec_errors = answer.exec_errors(),
        .boot_ms = answer.boot_ms(),
        .disk_used_bytes = guest.disk_used_bytes(),
        .disk_total_bytes = guest.disk_total_bytes(),
        .disk_read_bytes = answer.disk_read_bytes(),
        .disk_written_bytes = answer.disk_written_bytes(),
        .has_network = answer.has_network(),
        .network_sent_bytes = network.sent_bytes(),
        .network_received_bytes = network.received_bytes(),
        .tcp_connections = network.open_tcp(),
        .tcp_errors = network.tcp_errors(),
    };
}

}  // namespace

double cpu_percent(const BoxStats& from, const BoxStats& to) {
    if (to.time_ns <= from.time_ns || to.cpu_ns < from.cpu_ns) return 0;
    return 100.0 * static_cast<double>(to.cpu_ns - from.cpu_ns) /
           static_cast<double>(to.time_ns - from.time_ns);
}

Result<BoxStats> Box::stats(std::chrono::milliseconds window) const {
    runtime::Connection connection = TRY(runtime::running(*impl_));
    BoxStats now = TRY(read_stats(connection.client));
    if (window.count() <= 0) return now;
    std::this_thread::sleep_for(window);
    const BoxStats before = now;
    now = TRY(read_stats(connection.client));
    now.cpu_percent = boxlite::cpu_percent(before, now);
    return now;
}

}  // namespace boxlite
