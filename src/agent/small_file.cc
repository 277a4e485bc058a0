#include "agent/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "base/fd.h"

namespace boxlite::agent {

std::string read_small_file(int dir, const char* path) {
    const base::Fd fd(::openat(dir, path, O_RDONLY | O_CLOEXEC));
    char buffer[2048];
    const ssize_t n = fd.valid() ? ::read(fd.get(), buffer, sizeof buffer) : -1;
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

uint64_t number_after(std::string_view text, std::string_view key) {
    const size_t at = text.find(key);
    if (at == std::string_view::npos) return 0;
    uint64_t value = 0;
    std::from_chars(text.data() + at + key.size(), text.data() + text.size(), value);
    return value;
}

}  // namespace boxlite::agent
