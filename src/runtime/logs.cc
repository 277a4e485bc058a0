#include "runtime/logs.h"

#include <deque>
#include <utility>

#include "shim/output_log.h"

namespace boxlite::runtime {

namespace {

using Sink = std::function<bool(const LogEntry&)>;

constexpr uint32_t kReadBytes = 1 << 20;

// Passes the last lines of what was there at first, and everything after that. Holds no more than the log
// does, whose size the supervisor bounds.
class TailFilter {
  public:
    TailFilter(std::optional<uint64_t> lines, const Sink& sink) : lines_(lines), sink_(sink) {}

    bool add(LogEntry entry) {
        if (!lines_) return sink_(entry);
        for (size_t start = 0; start < entry.data.size();) {
            const size_t end = std::min(entry.data.find('\n', start), entry.data.size() - 1) + 1;
            pieces_.push_back({entry.stream, entry.time, entry.data.substr(start, end - start)});
            start = end;
        }
        return true;
    }

    // The log as it was at first ends here.
    bool pass_on() {
        if (!lines_) return true;
        size_t first = *lines_ == 0 ? pieces_.size() : 0;
        uint64_t seen = 0;
        for (size_t i = pieces_.size(); *lines_ > 0 && i-- > 1 && first == 0;)
            if (starts_line(i) && ++seen == *lines_) first = i;
        lines_.reset();
        for (; first < pieces_.size(); ++first)
            if (!sink_(pieces_[first])) return false;
        return true;
    }

  private:
    // What one stream left unfinished is no part of the other's line.
    bool starts_line(size_t i) const {
        return pieces_[i - 1].data.ends_with('\n') || pieces_[i - 1].stream != pieces_[i].stream;
    }

    std::optional<uint64_t> lines_;
    const Sink& sink_;
    std::deque<LogEntry> pieces_;
};

LogEntry entry_of(const v1::LogChunk& chunk) {
    return {chunk.stream() == v1::STDERR ? Stream::kStderr : Stream::kStdout, chunk.time_ns(), chunk.data()};
}

// Records younger than `after`; false when the reader has had enough.
Result<bool> read_files(const BoxFolder& folder, int64_t after, TailFilter& filter) {
    bool more = true;
    TRY(shim::read_output_log(folder.output_log(), [&](const shim::LogRecord& record) {
        if (record.time_ns <= after) return true;
        more =
            filter.add({record.stream == 1 ? Stream::kStderr : Stream::kStdout, record.time_ns, record.data});
        return more;
    }));
    return more;
}

}  // namespace

Result<void> read_logs(const BoxImpl& box, const LogOptions& options, const Sink& sink) {
    TRY(box.runtime->state->box_by_id(box.config.id));
    TailFilter filter(options.tail, sink);
    auto client = connect_client(box.folder);
    int64_t last_time = INT64_MIN;
    v1::ReadLogRequest request;
    request.set_max_bytes(kReadBytes);
    while (client.ok()) {
        auto response = client->call<v1::ReadLogResponse>(kBoxService, "ReadLog", request);
        // The supervisor has ended meanwhile: what it wrote since is in its files.
        if (!response.ok() && response.error().code == ErrorCode::kPortal) break;
        if (!response.ok()) return std::move(response).error();
        uint64_t missed = response->missed();
        for (const v1::LogChunk& chunk : response->chunks()) {
            last_time = chunk.time_ns();
            LogEntry entry = entry_of(chunk);
            entry.missed = std::exchange(missed, 0);
            if (!filter.add(std::move(entry))) return {};
        }
        const bool at_end = response->chunks_size() == 0 && response->next_offset() == request.offset();
        request.set_offset(response->next_offset());
        if (response->eof() || (at_end && !options.follow)) {
            (void)filter.pass_on();
            return {};
        }
        if (at_end && !request.follow()) {
            if (!filter.pass_on()) return {};
            request.set_follow(true);
        }
    }
    if (TRY(read_files(box.folder, last_time, filter))) (void)filter.pass_on();
    return {};
}

}  // namespace boxlite::runtime
