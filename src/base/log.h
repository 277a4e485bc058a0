// Structured log lines: time, level, component, message, key=value pairs; one line a record.
//   base::log_info("box started", {{"box", id}, {"pid", fmt::to_string(pid)}});
// Thread safe, and safe for any number of processes that write to the same folder: each record is one
// append. Files are named <component>-YYYY-MM-DD.log after the UTC day; those older than kKeepDays go
// when a new day's file is opened.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace boxlite::base {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

using LogField = std::pair<std::string_view, std::string_view>;

inline constexpr int kLogKeepDays = 14;

// Before this call, records of kWarn and above go to stderr and nothing goes to a file.
// `folder` is created; "" keeps to stderr. `file_level` and `stderr_level` are the lowest level written.
Result<void> log_to(const std::string& folder, std::string_view component, LogLevel file_level,
                    LogLevel stderr_level);

void log_record(LogLevel level, std::string_view message, std::initializer_list<LogField> fields);

inline void log_debug(std::string_view m, std::initializer_list<LogField> f = {}) {
    log_record(LogLevel::kDebug, m, f);
}
inline void log_info(std::string_view m, std::initializer_list<LogField> f = {}) {
    log_record(LogLevel::kInfo, m, f);
}
inline void log_warn(std::string_view m, std::initializer_list<LogField> f = {}) {
    log_record(LogLevel::kWarn, m, f);
}
inline void log_error(std::string_view m, std::initializer_list<LogField> f = {}) {
    log_record(LogLevel::kError, m, f);
}

// One record without its newline. Values with blanks, quotes or control characters are quoted, so a
// record is one line whatever its fields hold.
std::string format_log_record(int64_t realtime_ns, LogLevel level, std::string_view component,
                              std::string_view message, std::initializer_list<LogField> fields);

}  // namespace boxlite::base
