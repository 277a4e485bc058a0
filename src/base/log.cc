#include "base/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <mutex>

#include "base/clock.h"
#include "base/file.h"

namespace boxlite::base {

namespace {

constexpr size_t kDateLength = 10;  // YYYY-MM-DD

class Logger {
  public:
    static Logger& instance() {
        static Logger logger;
        return logger;
    }

    Result<void> configure(const std::string& folder, std::string_view component, LogLevel file_level,
                           LogLevel stderr_level) {
        const std::scoped_lock lock(mutex_);
        folder_ = folder;
        component_ = component;
        file_level_ = file_level;
        stderr_level_ = stderr_level;
        day_.clear();
        file_.reset();
        if (!folder_.empty()) TRY(make_directories(folder_, 0700));
        return {};
    }

    void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
        const std::scoped_lock lock(mutex_);
        const bool to_file = !folder_.empty() && level >= file_level_;
        const bool to_stderr = level >= stderr_level_;
        if (!to_file && !to_stderr) return;
        const int64_t now = realtime_ns();
        const std::string line = format_log_record(now, level, component_, message, fields) + "\n";
        if (to_file) {
            rotate(format_time(now).substr(0, kDateLength));
            if (file_.valid()) (void)write_all(file_.get(), as_bytes(line));
        }
        if (to_stderr) (void)write_all(STDERR_FILENO, as_bytes(line));
    }

  private:
    void rotate(const std::string& day) {
        if (day == day_) return;
        day_ = day;
        auto file = open_file(fmt::format("{}/{}-{}.log", folder_, component_, day),
                              O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
        file_ = file.ok() ? std::move(file).value() : Fd();
        remove_old(
            format_time(realtime_ns() - int64_t{kLogKeepDays} * 86'400'000'000'000).substr(0, kDateLength));
    }

    void remove_old(const std::string& oldest_kept) const {
        DIR* dir = ::opendir(folder_.c_str());
        if (!dir) return;
        const std::string prefix = component_ + "-";
        while (const dirent* entry = ::readdir(dir)) {
            const std::string_view name = entry->d_name;
            if (!name.starts_with(prefix) || !name.ends_with(".log") ||
                name.size() != prefix.size() + kDateLength + 4)
                continue;
            if (name.substr(prefix.size(), kDateLength) < oldest_kept)
                ::unlinkat(::dirfd(dir), entry->d_name, 0);
        }
        ::closedir(dir);
    }

    std::mutex mutex_;
    std::string folder_;
    std::string component_ = "boxlite";
    LogLevel file_level_ = LogLevel::kInfo;
    LogLevel stderr_level_ = LogLevel::kWarn;
    std::string day_;
    Fd file_;
};

std::string_view level_name(LogLevel level) {
    switch (level) {
        case LogLevel::kDebug:
            return "DEBUG";
        case LogLevel::kInfo:
            return "INFO";
        case LogLevel::kWarn:
            return "WARN";
        case LogLevel::kError:
            return "ERROR";
    }
    return "INFO";
}

void append_value(std::string& line, std::string_view value) {
    const auto plain = [](char c) { return c > ' ' && c != '"' && c != '\\' && c != '=' && c != 0x7f; };
    bool quote = value.empty();
    for (const char c : value) quote |= !plain(c);
    if (!quote) {
        line += value;
        return;
    }
    line += '"';
    for (const char c : value) {
        if (c == '"' || c == '\\') {
            line += '\\';
            line += c;
        } else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
            line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            line += c;
        }
    }
    line += '"';
}

}  // namespace

Result<void> log_to(const std::string& folder, std::string_view component, LogLevel file_level,
                    LogLevel stderr_level) {
    return Logger::instance().configure(folder, component, file_level, stderr_level);
}

void log_record(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
    Logger::instance().write(level, message, fields);
}

std::string format_log_record(int64_t ns, LogLevel level, std::string_view component,
                              std::string_view message, std::initializer_list<LogField> fields) {
    std::string line = fmt::format("{} {} {} msg=", format_time(ns), level_name(level), component);
    append_value(line, message);
    for (const auto& [key, value] : fields) {
        line += ' ';
        line += key;
        line += '=';
        append_value(line, value);
    }
    return line;
}

}  // namespace boxlite::base
