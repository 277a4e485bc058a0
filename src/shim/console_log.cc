#include "shim/console_log.h"

namespace boxlite::shim {

namespace {
constexpr uint64_t kFileBytes = 1 << 20;
constexpr size_t kTailBytes = 4096;
constexpr int kTailLines = 6;
}  // namespace

Result<ConsoleLog> ConsoleLog::create(const std::string& path) {
    return ConsoleLog(TRY(RotatingFile::create(path, kFileBytes)));
}

void ConsoleLog::append(base::ByteView data) {
    (void)file_.append(data);  // a full host disk must not stop the guest
    tail_ += base::as_text(data);
    if (tail_.size() > 2 * kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

std::string ConsoleLog::last_lines() const {
    std::string lines;
    for (const char c : tail_)
        if (c == '\n' || (c >= ' ' && c != 0x7f)) lines += c;
    while (!lines.empty() && lines.back() == '\n') lines.pop_back();
    size_t start = lines.size();
    for (int i = 0; i < kTailLines && start != std::string::npos && start > 0; ++i)
        start = lines.rfind('\n', start - 1);
    return start == std::string::npos || start == 0 ? lines : lines.substr(start + 1);
}

}  // namespace boxlite::shim
