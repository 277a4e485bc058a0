#include "image/layer_tar.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "image/layer_tar_pax.h"

namespace boxlite::image {

namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kMaxExtension = uint64_t{1} << 20;  // bytes of PAX records or of a long name
constexpr size_t kMaxXattrs = 512;
constexpr size_t kMaxSegments = 1 << 20;
constexpr uint64_t kMaxFileSize = uint64_t{1} << 44;  // 16 TiB, ext4's

std::string text_field(std::span<const uint8_t> field) {
    const auto end = std::find(field.begin(), field.end(), uint8_t{0});
    return {field.begin(), end};
}

uint64_t padding_of(uint64_t size) {
    return (kBlock - size % kBlock) % kBlock;
}

}  // namespace

struct TarReader::Header {
    std::array<uint8_t, kBlock> raw;

    std::span<const uint8_t> field(size_t offset, size_t size) const {
        return std::span(raw).subspan(offset, size);
    }
    char type() const { return static_cast<char>(raw[156]); }
    bool is_ustar() const { return std::memcmp(&raw[257], "ustar\0", 6) == 0; }
    bool is_gnu() const { return std::memcmp(&raw[257], "ustar  \0", 8) == 0; }
    bool is_star() const { return is_ustar() && std::memcmp(&raw[508], "tar\0", 4) == 0; }

    bool is_zero() const {
        return std::all_of(raw.begin(), raw.end(), [](uint8_t byte) { return byte == 0; });
    }
    // The sum of all bytes with the checksum field as blanks; some old programs summed signed bytes.
    bool checksum_fits() const {
        int64_t sum = 0;
        int64_t signed_sum = 0;
        for (size_t i = 0; i < kBlock; ++i) {
            const uint8_t byte = i >= 148 && i < 156 ? ' ' : raw[i];
            sum += byte;
            signed_sum += static_cast<int8_t>(byte);
        }
        const auto stored = parse_tar_number(field(148, 8));
        return stored &&
               (static_cast<int64_t>(*stored) == sum || static_cast<int64_t>(*stored) == signed_sum);
    }
    std::string path() const {
        std::string name = text_field(field(0, 100));
        if (!is_ustar()) return name;
        const std::string prefix = text_field(field(345, is_star() ? 131 : 155));
        return prefix.empty() ? name : prefix + "/" + name;
    }
};

// What PAX and GNU extension headers say about the entry that follows.
struct TarReader::Extensions {
    std::optional<std::string> long_name;
    std::optional<std::string> long_link;
    std::optional<std::string> path;
    std::optional<std::string> link;
    std::optional<uint64_t> size;
    std::optional<uint64_t> uid;
    std::optional<uint64_t> gid;
    std::optional<disk::FileTime> mtime;
    std::optional<disk::FileTime> atime;
    disk::Xattrs xattrs;
    disk::Xattrs libarchive_xattrs;

    std::optional<std::string> sparse_name;
    std::optional<uint64_t> sparse_size;
    std::optional<uint64_t> sparse_major;
    std::optional<uint64_t> sparse_minor;
    std::vector<uint64_t> sparse_map;
    bool sparse = false;

    Result<void> add(std::string_view key, std::string_view value);
    Result<void> add_sparse(std::string_view key, std::string_view value);
};

namespace {

Result<void> set_number(std::optional<uint64_t>& to, std::string_view key, std::string_view value) {
    if (value.empty()) {
        to.reset();
        return {};
    }
    to = parse_decimal(value);
    if (!to)
        return base::make_error(ErrorCode::kImage, "the archive's PAX record '{}' is not a number",
                                base::printable(key));
    return {};
}

Result<void> set_time(std::optional<disk::FileTime>& to, std::string_view key, std::string_view value) {
    if (value.empty()) {
        to.reset();
        return {};
    }
    to = parse_pax_time(value);
    if (!to)
        return base::make_error(ErrorCode::kImage, "the archive's PAX record '{}' is not a time",
                                base::printable(key));
    return {};
}

void set_text(std::optional<std::string>& to, std::string_view value) {
    if (value.empty()) {
        to.reset();
    } else {
        to = std::string(value);
    }
}

// The last one of a name counts.
Result<void> set_xattr(disk::Xattrs& xattrs, std::string name, std::string value) {
    const auto same =
        std::find_if(xattrs.begin(), xattrs.end(), [&](const auto& xattr) { return xattr.first == name; });
    if (same != xattrs.end()) {
        same->second = std::move(value);
        return {};
    }
    if (xattrs.size() == kMaxXattrs)
        return base::make_error(ErrorCode::kImage,
                                "an entry of the archive has more than {} extended attributes", kMaxXattrs);
    xattrs.emplace_back(std::move(name), std::move(value));
    return {};
}

}  // namespace

Result<void> TarReader::Extensions::add(std::string_view key, std::string_view value) {
    constexpr std::string_view kSchily = "SCHILY.xattr.";
    constexpr std::string_view kLibarchive = "LIBARCHIVE.xattr.";
    if (key == "path") {
        set_text(path, value);
    } else if (key == "linkpath") {
        set_text(link, value);
    } else if (key == "size") {
        return set_number(size, key, value);
    } else if (key == "uid") {
        return set_number(uid, key, value);
    } else if (key == "gid") {
        return set_number(gid, key, value);
    } else if (key == "mtime") {
        return set_time(mtime, key, value);
    } else if (key == "atime") {
        return set_time(atime, key, value);
    } else if (key.starts_with(kSchily)) {
        return set_xattr(xattrs, std::string(key.substr(kSchily.size())), std::string(value));
    } else if (key.starts_with(kLibarchive)) {
        auto name = decode_percent(key.substr(kLibarchive.size()));
        auto decoded = decode_base64(value);
        if (!name || !decoded)
            return base::make_error(ErrorCode::kImage, "the archive's PAX record '{}' is not base64",
                                    base::printable(key));
        return set_xattr(libarchive_xattrs, std::move(*name), std::move(*decoded));
    } else if (key.starts_with("GNU.sparse.")) {
        return add_sparse(key.substr(11), value);
    }
    return {};
}

Result<void> TarReader::Extensions::add_sparse(std::string_view key, std::string_view value) {
    sparse = true;
    if (key == "name") {
        set_text(sparse_name, value);
    } else if (key == "size" || key == "realsize") {
        return set_number(sparse_size, key, value);
    } else if (key == "major") {
        return set_number(sparse_major, key, value);
    } else if (key == "minor") {
        return set_number(sparse_minor, key, value);
    } else if (key == "map" || key == "offset" || key == "numbytes") {
        while (!value.empty()) {
            const size_t comma = value.find(',');
            std::optional<uint64_t> number;
            TRY(set_number(number, key, value.substr(0, comma)));
            if (!number)
                return base::make_error(ErrorCode::kImage, "the archive's sparse map has an empty number");
            sparse_map.push_back(*number);
            value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
        }
    }
    return {};
}

Error TarReader::damaged(std::string_view what) const {
    if (path_.empty()) return base::make_error(ErrorCode::kImage, "the archive is damaged: {}", what);
    return base::make_error(ErrorCode::kImage, "the archive is damaged at or after '{}': {}",
                            base::printable(path_), what);
}

Result<bool> TarReader::refill() {
    if (chunk_.empty()) chunk_ = TRY(source_.next());
    return !chunk_.empty();
}

// False when the archive ends before the block's first byte, if that is allowed.
Result<bool> TarReader::read_block(std::span<uint8_t> block, bool end_allowed) {
    size_t done = 0;
    while (done < block.size()) {
        if (!TRY(refill())) {
            if (done == 0 && end_allowed) return false;
            return damaged("it ends too early");
        }
        const size_t n = std::min(block.size() - done, chunk_.size());
        std::memcpy(block.data() + done, chunk_.data(), n);
        chunk_ = chunk_.subspan(n);
        done += n;
    }
    return true;
}

Result<void> TarReader::skip(uint64_t length) {
    while (length > 0) {
        if (!TRY(refill())) return damaged("it ends too early");
        const auto n = static_cast<size_t>(std::min<uint64_t>(length, chunk_.size()));
        chunk_ = chunk_.subspan(n);
        length -= n;
    }
    return {};
}

Result<std::string> TarReader::read_text(uint64_t length) {
    if (length > kMaxExtension)
        return base::make_error(ErrorCode::kImage,
                                "the archive has an extension header of {} bytes, at most {} are read",
                                length, kMaxExtension);
    std::string text(length, '\0');
    TRY(read_block({reinterpret_cast<uint8_t*>(text.data()), text.size()}, false));
    TRY(skip(padding_of(length)));
    return text;
}

// False at the end of the archive: two zero blocks, or the end of the data.
Result<bool> TarReader::read_header(Header& header) {
    if (!TRY(read_block(header.raw, true))) return false;
    if (header.is_zero()) {
        if (!TRY(read_block(header.raw, true)) || header.is_zero()) return false;
        return damaged("a single zero block is followed by something else");
    }
    if (!header.checksum_fits()) return damaged("a header's checksum is wrong");
    return true;
}

Result<void> TarReader::read_extension(const Header& header, uint64_t size, Extensions& extensions) {
    std::string text = TRY(read_text(size));
    switch (header.type()) {
        case 'L':
            set_text(extensions.long_name, text.c_str());
            return {};
        case 'K':
            set_text(extensions.long_link, text.c_str());
            return {};
        case 'x':
        case 'X':
            return for_each_pax_record(text, [&](std::string_view key, std::string_view value) {
                return extensions.add(key, value);
            });
        default:
            return {};  // 'g' and 'V' concern no entry: OCI tools take nothing from global records
    }
}

Result<bool> TarReader::next(TarEntry& entry) {
    if (ended_) return false;
    TRY(skip(body_left_));
    TRY(skip(padding_));
    body_left_ = padding_ = 0;
    Extensions extensions;
    Header header;
    for (;;) {
        if (!TRY(read_header(header))) {
            ended_ = true;
            return false;
        }
        const auto size = parse_tar_number(header.field(124, 12));
        if (!size || *size > kMaxFileSize) return damaged("a header's size is not possible");
        if (std::string_view("LKxXgV").find(header.type()) == std::string_view::npos) break;
        TRY(read_extension(header, *size, extensions));
    }
    entry = TarEntry{};
    TRY(build_entry(header, extensions, entry));
    return true;
}

namespace {

Result<uint32_t> checked_id(const std::optional<uint64_t>& id, std::string_view path) {
    // The kernel reads the last number as "nobody at all".
    if (!id || *id >= UINT32_MAX)
        return base::make_error(ErrorCode::kImage, "the owner of '{}' is not a possible user or group number",
                                base::printable(path));
    return static_cast<uint32_t>(*id);
}

std::optional<TarType> type_of(char flag, const std::string& path) {
    switch (flag) {
        case '\0':
            return !path.empty() && path.back() == '/' ? TarType::kDirectory : TarType::kFile;
        case '0':
        case '7':
        case 'S':
            return TarType::kFile;
        case '1':
            return TarType::kHardLink;
        case '2':
            return TarType::kSymlink;
        case '3':
            return TarType::kCharDevice;
        case '4':
            return TarType::kBlockDevice;
        case '5':
            return TarType::kDirectory;
        case '6':
            return TarType::kFifo;
        default:
            return std::nullopt;
    }
}

}  // namespace

Result<void> TarReader::build_entry(const Header& header, Extensions& extensions, TarEntry& entry) {
    entry.path = header.path();
    if (extensions.path) entry.path = std::move(*extensions.path);
    if (extensions.sparse_name) entry.path = std::move(*extensions.sparse_name);
    if (extensions.long_name) entry.path = std::move(*extensions.long_name);
    path_ = entry.path;
    const char type_flag = header.type();
    const auto type = type_of(type_flag, entry.path);
    if (!type)
        return base::make_error(ErrorCode::kImage, "'{}' has the archive type '{}', which is not known",
                                base::printable(path_), base::printable({&type_flag, 1}));
    entry.type = *type;
    entry.link = text_field(header.field(157, 100));
    if (extensions.link) entry.link = std::move(*extensions.link);
    if (extensions.long_link) entry.link = std::move(*extensions.long_link);
    TRY(read_attributes(header, extensions, entry));
    TRY(begin_content(header, extensions, entry.type));
    entry.size = logical_size_;
    return {};
}

Result<void> TarReader::read_attributes(const Header& header, Extensions& extensions, TarEntry& entry) {
    const auto mode = parse_tar_number(header.field(100, 8));
    const auto mtime = parse_tar_time(header.field(136, 12));
    if (!mode || !mtime) return damaged("a header's mode or time is not a number");
    entry.mode = static_cast<uint32_t>(*mode & 07777);
    entry.uid =
        TRY(checked_id(extensions.uid ? extensions.uid : parse_tar_number(header.field(108, 8)), path_));
    entry.gid =
        TRY(checked_id(extensions.gid ? extensions.gid : parse_tar_number(header.field(116, 8)), path_));
    if (entry.type == TarType::kCharDevice || entry.type == TarType::kBlockDevice) {
        const auto major = parse_tar_number(header.field(329, 8));
        const auto minor = parse_tar_number(header.field(337, 8));
        if (!major || !minor || *major > UINT32_MAX || *minor > UINT32_MAX)
            return damaged("a device number is not possible");
        entry.major = static_cast<uint32_t>(*major);
        entry.minor = static_cast<uint32_t>(*minor);
    }
    entry.mtime = extensions.mtime.value_or(disk::FileTime{*mtime, 0});
    entry.atime = extensions.atime.value_or(entry.mtime);
    entry.xattrs = std::move(extensions.libarchive_xattrs);
    for (auto& [name, value] : extensions.xattrs) TRY(set_xattr(entry.xattrs, name, std::move(value)));
    return {};
}

Result<void> TarReader::begin_content(const Header& header, const Extensions& extensions, TarType type) {
    position_ = 0;
    segment_ = 0;
    segments_.clear();
    sparse_ = false;
    logical_size_ = 0;
    // Links, directories and the like have no data, whatever their size says; Go's reader agrees.
    if (type != TarType::kFile) return {};
    body_left_ = extensions.size.value_or(*parse_tar_number(header.field(124, 12)));
    if (body_left_ > kMaxFileSize) return damaged("a file's size is not possible");
    padding_ = padding_of(body_left_);
    logical_size_ = body_left_;

    if (header.type() == 'S') {
        TRY(read_old_sparse_map(header));
    } else if (extensions.sparse) {
        sparse_ = true;
        logical_size_ = extensions.sparse_size.value_or(body_left_);
        if (extensions.sparse_major == 1) {
            TRY(read_sparse_map_in_data());
        } else {
            if (extensions.sparse_map.size() % 2 != 0) return damaged("a sparse map is incomplete");
            for (size_t i = 0; i < extensions.sparse_map.size(); i += 2)
                segments_.push_back({extensions.sparse_map[i], extensions.sparse_map[i + 1]});
        }
    }
    if (sparse_) TRY(check_sparse_map(logical_size_));
    return {};
}

// GNU's old form: four segments in the header, then blocks of 21.
Result<void> TarReader::read_old_sparse_map(const Header& header) {
    if (!header.is_gnu()) return damaged("a sparse file is not in GNU's format");
    sparse_ = true;
    const auto real_size = parse_tar_number(header.field(483, 12));
    if (!real_size) return damaged("a sparse file has no size");
    logical_size_ = *real_size;
    std::array<uint8_t, kBlock> extended;
    std::span<const uint8_t> slots = header.field(386, 4 * 24);
    bool more = header.raw[482] != 0;
    for (;;) {
        for (; slots.size() >= 24; slots = slots.subspan(24)) {
            if (slots[0] == 0) break;
            const auto offset = parse_tar_number(slots.first(12));
            const auto length = parse_tar_number(slots.subspan(12, 12));
            if (!offset || !length || segments_.size() >= kMaxSegments)
                return damaged("a sparse map is broken");
            segments_.push_back({*offset, *length});
        }
        if (!more) return {};
        TRY(read_block(extended, false));
        slots = std::span<const uint8_t>(extended).first(size_t{21} * 24);
        more = extended[504] != 0;
    }
}

// PAX format 1.0: decimal lines at the start of the data, padded to a block.
Result<void> TarReader::read_sparse_map_in_data() {
    const uint64_t before = body_left_;
    const uint64_t count = TRY(read_sparse_number());
    if (count > kMaxSegments) return damaged("a sparse map is too long");
    for (uint64_t i = 0; i < count; ++i) {
        Segment segment;
        segment.offset = TRY(read_sparse_number());
        segment.length = TRY(read_sparse_number());
        segments_.push_back(segment);
    }
    const uint64_t padding = padding_of(before - body_left_);
    if (padding > body_left_) return damaged("a sparse map is longer than its file");
    TRY(skip(padding));
    body_left_ -= padding;
    return {};
}

Result<uint64_t> TarReader::read_sparse_number() {
    std::string digits;
    for (;;) {
        if (body_left_ == 0 || digits.size() > 20) return damaged("a sparse map is broken");
        uint8_t byte = 0;
        TRY(read_block({&byte, 1}, false));
        --body_left_;
        if (byte == '\n') break;
        digits += static_cast<char>(byte);
    }
    const auto number = parse_decimal(digits);
    if (!number) return damaged("a sparse map is broken");
    return *number;
}

// Segments in ascending order within the file, and exactly as much data as they need.
Result<void> TarReader::check_sparse_map(uint64_t size) {
    if (size > kMaxFileSize) return damaged("a sparse file's size is not possible");
    uint64_t end = 0;
    uint64_t data = 0;
    for (const Segment& segment : segments_) {
        if (segment.offset < end || segment.length > size || segment.offset > size - segment.length)
            return damaged("a sparse map's segments overlap or leave the file");
        end = segment.offset + segment.length;
        data += segment.length;
    }
    if (data != body_left_) return damaged("a sparse map does not fit its data");
    return {};
}

Result<TarPiece> TarReader::read() {
    uint64_t wanted = body_left_;
    if (sparse_) {
        while (segment_ < segments_.size() &&
               position_ >= segments_[segment_].offset + segments_[segment_].length)
            ++segment_;
        const bool last = segment_ == segments_.size();
        const uint64_t next_data = last ? logical_size_ : segments_[segment_].offset;
        if (position_ < next_data) {
            const uint64_t hole = next_data - position_;
            position_ = next_data;
            return TarPiece{{}, hole};
        }
        wanted = last ? 0 : segments_[segment_].offset + segments_[segment_].length - position_;
    }
    if (wanted == 0) return TarPiece{};
    if (!TRY(refill())) return damaged("it ends too early");
    const auto n = static_cast<size_t>(std::min<uint64_t>(wanted, chunk_.size()));
    const auto data = chunk_.first(n);
    chunk_ = chunk_.subspan(n);
    body_left_ -= n;
    position_ += n;
    return TarPiece{data, 0};
}

}  // namespace boxlite::image
