// The protobuf wire format as far as ttrpc's envelope needs it: varints and length-delimited fields.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace boxlite::rpc {

struct WireField {
    uint32_t number = 0;
    bool is_bytes = false;
    uint64_t number_value = 0;  // of a varint field
    std::string_view bytes;     // of a length-delimited field
};

// Walks over the fields of a message. Fixed-width fields are passed over; groups, which proto3 does not
// have, and everything that does not fit count as damage.
class WireReader {
  public:
    explicit WireReader(std::string_view bytes) : left_(bytes) {}

    // nullopt at the end or at damage: see failed().
    std::optional<WireField> next() {
        while (!left_.empty()) {
            uint64_t key = 0;
            if (!varint(key) || key > UINT32_MAX || key >> 3 == 0) return fail();
            WireField field{.number = static_cast<uint32_t>(key >> 3)};
            switch (key & 7) {
                case 0:
                    return varint(field.number_value) ? std::optional(field) : fail();
                case 1:
                    if (!skip(8)) return fail();
                    continue;
                case 2: {
                    uint64_t size = 0;
                    if (!varint(size) || size > left_.size()) return fail();
                    field.is_bytes = true;
                    field.bytes = left_.substr(0, size);
                    left_.remove_prefix(size);
                    return field;
                }
                case 5:
                    if (!skip(4)) return fail();
                    continue;
                default:
                    return fail();
            }
        }
        return std::nullopt;
    }
    bool failed() const { return failed_; }

  private:
    std::nullopt_t fail() {
        failed_ = true;
        left_ = {};
        return std::nullopt;
    }
    bool skip(size_t size) {
        if (size > left_.size()) return false;
        left_.remove_prefix(size);
        return true;
    }
    bool varint(uint64_t& value) {
        value = 0;
        for (unsigned shift = 0; shift < 70 && !left_.empty(); shift += 7) {
            const auto byte = static_cast<uint8_t>(left_.front());
            left_.remove_prefix(1);
            if (shift == 63 && byte > 1) return false;
            value |= static_cast<uint64_t>(byte & 0x7f) << shift;
            if (byte < 0x80) return true;
        }
        return false;
    }

    std::string_view left_;
    bool failed_ = false;
};

constexpr size_t varint_size(uint64_t value) {
    size_t size = 1;
    for (; value >= 0x80; value >>= 7) ++size;
    return size;
}
// For field numbers below 16, whose key is one byte.
constexpr size_t bytes_field_size(size_t size) {
    return 1 + varint_size(size) + size;
}
constexpr size_t number_field_size(uint64_t value) {
    return 1 + varint_size(value);
}

// The writers return the end of what they wrote.
inline uint8_t* write_varint(uint8_t* out, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<uint8_t>(value | 0x80);
    *out++ = static_cast<uint8_t>(value);
    return out;
}
inline uint8_t* write_number_field(uint8_t* out, uint32_t number, uint64_t value) {
    *out++ = static_cast<uint8_t>(number << 3);
    return write_varint(out, value);
}
inline uint8_t* write_bytes_field_start(uint8_t* out, uint32_t number, size_t size) {
    *out++ = static_cast<uint8_t>(number << 3 | 2);
    return write_varint(out, size);
}
inline uint8_t* write_bytes_field(uint8_t* out, uint32_t number, std::string_view bytes) {
    out = write_bytes_field_start(out, number, bytes.size());
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return out + bytes.size();
}

}  // namespace boxlite::rpc
