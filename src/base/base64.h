// Base64 (RFC 4648, 4).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace boxlite::base {

std::string base64_encode(std::string_view bytes);
// Also without its padding, as some write it. nullopt when it is none.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace boxlite::base
