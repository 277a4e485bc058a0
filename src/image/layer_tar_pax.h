// The numbers and records of tar headers. Private to the tar reader.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "disk/ext4_writer.h"

namespace boxlite::image {

// A header field: octal text, or GNU's base 256. nullopt when it is neither or negative. An empty field is 0.
std::optional<uint64_t> parse_tar_number(std::span<const uint8_t> field);
// The same, where negative numbers are possible.
std::optional<int64_t> parse_tar_time(std::span<const uint8_t> field);

// Digits only.
std::optional<uint64_t> parse_decimal(std::string_view text);
// Seconds with an optional sign and fraction.
std::optional<disk::FileTime> parse_pax_time(std::string_view text);

// Calls `record` for each "<length> <key>=<value>\n". An error of `record` ends it.
Result<void> for_each_pax_record(
    std::string_view text,
    const std::function<Result<void>(std::string_view key, std::string_view value)>& record);

// For LIBARCHIVE.xattr: percent-encoded names and base64 values, padded or not.
std::optional<std::string> decode_percent(std::string_view text);
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace boxlite::image
