// Reading of points in time from outside documents.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace boxlite::runtime {

// RFC 3339 ("2024-05-01T10:20:30.123456789Z", with an offset too) to nanoseconds since the Unix epoch.
std::optional<int64_t> parse_time(std::string_view text);

}  // namespace boxlite::runtime
