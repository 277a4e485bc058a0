#include "runtime/network_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/file.h"

namespace boxlite::runtime {

namespace {

using Sink = std::function<bool(const FlowRecord&)>;

std::optional<FlowRecord> parse(const std::string& line) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object()) return std::nullopt;
    const auto text = [&json](const char* key) {
        const auto found = json.find(key);
        return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto number = [&json](const char* key) {
        const auto found = json.find(key);
        return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
    };
    FlowRecord record;
    record.time = text("time");
    record.protocol = text("protocol");
    record.direction = text("direction");
    record.name = text("name");
    record.address = text("address");
    record.port = static_cast<uint16_t>(number("port"));
    record.allowed = text("verdict") == "allowed";
    record.rule = text("rule");
    record.sent_bytes = number("sent_bytes");
    record.received_bytes = number("received_bytes");
    record.duration_ms = number("duration_ms");
    record.error = text("error");
    return record;
}

// The file that is written at the moment, across rotations.
class Follower {
  public:
    explicit Follower(std::string path) : path_(std::move(path)) {}

    // What has come since the last call, whole lines; false when `line` has had enough.
    Result<bool> read(const std::function<bool(const std::string&)>& line) {
        for (;;) {
            const bool last = TRY(is_current());
            if (!TRY(drain(line))) return false;
            if (last) return true;
            partial_.clear();
            file_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
            if (!file_.valid()) return true;
        }
    }

  private:
    Result<bool> is_current() const {
        struct stat now, open;
        if (::stat(path_.c_str(), &now) < 0) return true;  // not made yet
        return file_.valid() && ::fstat(file_.get(), &open) == 0 && open.st_ino == now.st_ino;
    }

    Result<bool> drain(const std::function<bool(const std::string&)>& line) {
        char buffer[16384];
        while (file_.valid()) {
            const ssize_t n = ::read(file_.get(), buffer, sizeof buffer);
            if (n < 0) return base::errno_error(ErrorCode::kStorage, "read '{}'", path_);
            if (n == 0) break;
            partial_.append(buffer, static_cast<size_t>(n));
            size_t start = 0;
            for (size_t end; (end = partial_.find('\n', start)) != std::string::npos; start = end + 1)
                if (!line(partial_.substr(start, end - start))) return false;
            partial_.erase(0, start);
        }
        return true;
    }

    std::string path_;
    base::Fd file_;
    std::string partial_;
};

// The lines that rotation has put away.
Result<std::vector<std::string>> older_lines(const std::string& path) {
    std::vector<std::string> lines;
    const auto text = base::read_file(path, size_t{64} << 20);
    if (!text.ok()) return lines;
    for (size_t start = 0, end; (end = text->find('\n', start)) != std::string::npos; start = end + 1)
        lines.push_back(text->substr(start, end - start));
    return lines;
}

}  // namespace

Result<void> read_network_log(const BoxImpl& box, const LogOptions& options, const Sink& sink) {
    TRY(box.runtime->state->box_by_id(box.config.id));
    // Before the first look, so that nothing is missed in between.
    const base::Fd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (options.follow && (!changes.valid() || ::inotify_add_watch(changes.get(), box.folder.logs().c_str(),
                                                                   IN_MODIFY | IN_CREATE | IN_MOVED_TO) < 0))
        return base::errno_error(ErrorCode::kStorage, "watch '{}'", box.folder.logs());
    auto connection = connect_supervisor(box.folder);
    std::vector<std::string> lines = TRY(older_lines(box.folder.network_log() + ".1"));
    Follower follower(box.folder.network_log());
    TRY(follower.read([&](const std::string& line) {
        lines.push_back(line);
        return true;
    }));
    const auto tell = [&sink](const std::string& line) {
        const auto record = parse(line);
        return !record || sink(*record);
    };
    const size_t first = options.tail && *options.tail < lines.size() ? lines.size() - *options.tail : 0;
    for (size_t i = first; i < lines.size(); ++i)
        if (!tell(lines[i])) return {};
    while (options.follow && connection.ok()) {
        pollfd waiting[2] = {{changes.get(), POLLIN, 0}, {connection->pidfd.get(), POLLIN, 0}};
        if (::poll(waiting, 2, -1) < 0 && errno != EINTR)
            return base::errno_error(ErrorCode::kInternal, "wait for the box's network log");
        char events[4096];
        while (::read(changes.get(), events, sizeof events) > 0) {
        }
        if (!TRY(follower.read(tell)) || (waiting[1].revents & POLLIN)) return {};
    }
    return {};
}

}  // namespace boxlite::runtime
