// What each fuzz target offers, besides the entry that libFuzzer calls, and how it takes its input apart.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace boxlite::fuzz {

// Inputs that reach deep, for replay.cc to start from.
std::vector<std::string> seeds();

// Takes values from the front. Past the end everything is zero.
class Input {
  public:
    Input(const uint8_t* data, size_t size) : rest_(data, size) {}
    bool empty() const { return rest_.empty(); }
    base::ByteView bytes(size_t n) {
        const auto taken = rest_.first(std::min(n, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }
    template <typename T>
    T take() {
        static_assert(std::is_trivially_copyable_v<T>);
        T value{};
        const auto taken = bytes(sizeof value);
        if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
        return value;
    }

  private:
    base::ByteView rest_;
};

// The other way round, for seeds.
class Output {
  public:
    template <typename T>
    Output& put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    Output& put_bytes(std::string_view bytes) {
        bytes_ += bytes;
        return *this;
    }
    std::string take() { return std::exchange(bytes_, {}); }

  private:
    std::string bytes_;
};

}  // namespace boxlite::fuzz
