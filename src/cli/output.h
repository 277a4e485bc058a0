// Writing to standard output and error. A reader that went away (EPIPE) is no error to report: the command
// ends as if SIGPIPE had killed it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace boxlite::cli {

// Exit codes, after Docker's.
inline constexpr int kExitFailure = 1;  // boxlite could not do it
inline constexpr int kExitUsage = 2;
inline constexpr int kExitOwnError = 125;  // of run and exec, so that it is not taken for the program's
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;
inline constexpr int kExitBrokenPipe = 128 + 13;

// False when the reader is gone or the device is full.
bool write_out(std::string_view text);
// "boxlite: <message>" and a newline on standard error.
void print_error(std::string_view message);
void print_note(std::string_view message);

// 1.234 MB; powers of 1000, as Docker prints sizes of images.
std::string human_bytes(uint64_t bytes);
// "5 minutes ago"; `ns` since the epoch, "" for 0.
std::string human_age(int64_t ns, int64_t now_ns);

// Columns aligned under their headings, two blanks or more apart. Counts characters, not bytes.
std::string format_table(const std::vector<std::string>& headings,
                         const std::vector<std::vector<std::string>>& rows);
// The same for lines whose cells are separated by tabs.
std::string align_tabs(const std::vector<std::string>& lines);

}  // namespace boxlite::cli
