// Random identifiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace boxlite::base {

// Fills `out` from the kernel's random number generator.
void random_bytes(std::span<uint8_t> out);

// `length` characters of [0-9a-z], about 5.17 bits each. Box ids have 12, execution ids 16.
std::string random_id(size_t length = 12);

}  // namespace boxlite::base
