#include "base/id.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

namespace boxlite::base {

void random_bytes(std::span<uint8_t> out) {
    while (!out.empty()) {
        const ssize_t n = ::getrandom(out.data(), out.size(), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) std::abort();  // only for a bad pointer or a kernel without getrandom (before 3.17)
        out = out.subspan(static_cast<size_t>(n));
    }
}

std::string random_id(size_t length) {
    static constexpr char kAlphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    constexpr uint8_t kLimit = 252;  // largest multiple of 36 in a byte: no bias
    std::string id;
    while (id.size() < length) {
        uint8_t bytes[32];
        random_bytes(bytes);
        for (const uint8_t byte : bytes)
            if (byte < kLimit && id.size() < length) id.push_back(kAlphabet[byte % 36]);
    }
    return id;
}

}  // namespace boxlite::base
