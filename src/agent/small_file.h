// The kernel's one-page text files: /proc, /sys, cgroups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace boxlite::agent {

// The content of `path`, taken from the directory `dir` (or AT_FDCWD), up to 2 KiB; "" when it cannot be
// read.
std::string read_small_file(int dir, const char* path);

// The decimal number behind the first `key` in `text`, 0 when there is none.
uint64_t number_after(std::string_view text, std::string_view key);

}  // namespace boxlite::agent
