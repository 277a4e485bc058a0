#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/output.h"
#include "cli/terminal.h"

namespace boxlite::cli {

namespace {

constexpr int64_t kRedrawNs = 80'000'000;
constexpr size_t kShortDigest = 12;
constexpr size_t kMaxBar = 40;

std::string label(const Progress& progress) {
    if (progress.kind == Progress::Kind::kBuild) return "disk";
    const size_t colon = progress.item.find(':');
    return progress.item.substr(colon == std::string::npos ? 0 : colon + 1).substr(0, kShortDigest);
}

std::string_view verb(const Progress& progress) {
    if (progress.kind == Progress::Kind::kBuild) return progress.finished ? "built" : "building";
    return progress.finished ? "fetched" : "fetching";
}

std::string amount(const Progress& progress) {
    if (progress.kind == Progress::Kind::kBuild)
        return fmt::format("{}/{} layers", progress.done, progress.total);
    if (progress.finished) return human_bytes(progress.total);
    return fmt::format("{}/{}", human_bytes(progress.done), human_bytes(progress.total));
}

}  // namespace

ProgressDisplay::ProgressDisplay(bool quiet) : quiet_(quiet), bars_(is_terminal(STDERR_FILENO)) {}

ProgressDisplay::~ProgressDisplay() {
    const std::scoped_lock lock(mutex_);
    if (bars_ && drawn_ > 0) draw();
}

ProgressSink ProgressDisplay::sink() {
    if (quiet_) return {};
    return [this](const Progress& progress) { update(progress); };
}

void ProgressDisplay::update(const Progress& progress) {
    const std::scoped_lock lock(mutex_);
    const std::string key = progress.kind == Progress::Kind::kBuild ? "build" : progress.item;
    const auto known = items_.find(key);
    const bool was_finished = known != items_.end() && known->second.finished;
    if (known == items_.end()) order_.push_back(key);
    items_[key] = progress;
    if (!bars_) {
        if (progress.finished && !was_finished)
            print_note(fmt::format("{}: {} {}", label(progress), verb(progress), amount(progress)));
        return;
    }
    const int64_t now = base::realtime_ns();
    if (progress.finished == was_finished && now - drawn_at_ < kRedrawNs) return;
    drawn_at_ = now;
    draw();
}

std::string ProgressDisplay::line(const Progress& progress) const {
    const auto size = terminal_size(STDERR_FILENO);
    const size_t columns = size ? size->cols : 80;
    std::string text =
        fmt::format("{:<12}  {:<8}  {:>18}", label(progress), verb(progress), amount(progress));
    if (progress.finished || progress.total == 0 || columns < text.size() + 12) return text;
    const size_t width = std::min(kMaxBar, columns - text.size() - 5);
    const size_t filled = static_cast<size_t>(static_cast<double>(width) *
                                              static_cast<double>(std::min(progress.done, progress.total)) /
                                              static_cast<double>(progress.total));
    return text + "  [" + std::string(filled, '=') + std::string(width - filled, ' ') + "]";
}

// The caller holds the mutex.
void ProgressDisplay::draw() {
    std::string frame;
    if (drawn_ > 0) frame += fmt::format("\x1b[{}A", drawn_);
    for (const std::string& key : order_) frame += "\r\x1b[K" + line(items_[key]) + "\n";
    drawn_ = order_.size();
    (void)base::write_all(STDERR_FILENO, {reinterpret_cast<const uint8_t*>(frame.data()), frame.size()});
}

}  // namespace boxlite::cli
