#include "shim/main_output.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace boxlite::shim {

namespace {

constexpr uint32_t kPullBytes = 128 << 10;
constexpr uint32_t kMaxReadBytes = 1 << 20;
// How far the process may run ahead of a reader that holds: well inside what the log keeps.
constexpr uint64_t kHoldWindow = 4 << 20;

}  // namespace

void MainOutput::start(std::shared_ptr<rpc::Channel> agent, bool terminal) {
    agent_ = std::move(agent);
    sources_.push_back({v1::STDOUT});
    if (!terminal) sources_.push_back({v1::STDERR});
    pull();
}

bool MainOutput::held() const {
    return std::any_of(holders_.begin(), holders_.end(),
                       [this](const auto& holder) { return log_.end() - holder.second > kHoldWindow; });
}

void MainOutput::pull() {
    if (ended_ || held()) return;
    for (size_t i = 0; i < sources_.size(); ++i) {
        Source& source = sources_[i];
        if (source.pulling || source.eof) continue;
        source.pulling = true;
        v1::ReadRequest request;
        request.set_id("main");
        request.set_stream(source.stream);
        request.set_max_bytes(kPullBytes);
        agent_->call("boxlite.v1.Execution", "Read", request, {},
                     [this, i](const Result<std::string_view>& answer) { take(sources_[i], answer); });
    }
}

void MainOutput::take(Source& source, const Result<std::string_view>& answer) {
    source.pulling = false;
    v1::ReadResponse response;
    const bool sound =
        answer.ok() && response.ParseFromArray(answer->data(), static_cast<int>(answer->size()));
    if (!sound || response.eof()) {
        source.eof = true;
        if (std::all_of(sources_.begin(), sources_.end(), [](const Source& s) { return s.eof; })) end();
        return;
    }
    const auto kept = log_.append(static_cast<uint8_t>(source.stream), base::realtime_ns(),
                                  base::as_bytes(response.data()));
    if (!kept.ok() && !lost_) {
        lost_ = kept.error();
        base::log_error("output was lost", {{"error", lost_->message}});
    }
    wake();
    pull();
}

void MainOutput::end() {
    if (std::exchange(ended_, true)) return;
    wake();
    if (on_end_) std::exchange(on_end_, nullptr)();
}

void MainOutput::wake() {
    for (Parked& parked : std::exchange(parked_, {})) {
        if (auto connection = parked.connection.lock())
            read(parked.request, connection, std::move(parked.responder));
    }
}

void MainOutput::read(const v1::ReadLogRequest& request, const std::shared_ptr<rpc::Channel>& connection,
                      rpc::Responder responder) {
    const uint64_t position = std::max<uint64_t>(request.offset(), log_.start());
    if (request.hold()) holders_[connection.get()] = position;
    if (position == log_.end() && lost_) {
        holders_.erase(connection.get());
        read_to_end_ = true;
        responder.fail(Error(*lost_).with_context("some of the output was lost"));
        return pull();
    }
    if (position == log_.end() && request.follow() && !ended_) {
        parked_.push_back({request, connection, std::move(responder)});
        return pull();
    }
    auto slice = log_.read(position, std::min(request.max_bytes(), kMaxReadBytes));
    if (!slice.ok()) return responder.fail(slice.error());
    v1::ReadLogResponse response;
    for (LogRecord& record : slice->records) {
        v1::LogChunk* chunk = response.add_chunks();
        chunk->set_stream(static_cast<v1::Stream>(record.stream));
        chunk->set_time_ns(record.time_ns);
        chunk->set_data(std::move(record.data));
    }
    response.set_next_offset(slice->next);
    if (request.offset() > 0) response.set_missed(position - request.offset());
    response.set_eof(ended_ && slice->next == log_.end());
    if (response.eof()) {
        holders_.erase(connection.get());
        read_to_end_ = true;
    }
    responder.reply(response);
    pull();
}

void MainOutput::forget(const rpc::Channel* connection) {
    holders_.erase(connection);
    pull();
}

bool MainOutput::all_seen() const {
    return holders_.empty();
}

}  // namespace boxlite::shim
