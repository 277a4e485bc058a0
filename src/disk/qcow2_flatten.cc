#include "disk/qcow2_flatten.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "disk/qcow2_backing.h"

namespace boxlite::disk {

namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;

// What the last overlay of the chain stands on; nullopt: on nothing.
Result<std::optional<Backing>> bottom_of(std::string path) {
    for (unsigned depth = 0; depth < kMaxBackingDepth; ++depth) {
        const Qcow2Info info = TRY(qcow2_info(path));
        if (!info.backing || info.backing->format == ImageFormat::kRaw) return info.backing;
        path =
            qcow2::absolute_path((std::filesystem::path(path).parent_path() / info.backing->path).string());
    }
    return base::make_error(ErrorCode::kStorage, "'{}' stands on too many images", path);
}

Result<void> copy_overlays(Qcow2& from, Qcow2& to) {
    base::Bytes buffer(kPiece);
    for (uint64_t at = 0; at < from.size();) {
        const auto run = TRY(from.run_at(at, std::min(kPiece, from.size() - at)));
        const std::span<uint8_t> piece(buffer.data(), run.length);
        if (run.in_overlay) {
            TRY(from.read(at, piece));
            if (std::ranges::all_of(piece, [](uint8_t byte) { return byte == 0; }))
                TRY(to.write_zeroes(at, piece.size()));
            else
                TRY(to.write(at, piece));
        }
        at += run.length;
    }
    return to.close();
}

}  // namespace

Result<void> flatten_qcow2(const std::string& from, const std::string& to,
                           const std::vector<std::string>& backing_dirs) {
    const auto source = TRY(Qcow2::open(from, {.read_only = true, .backing_dirs = backing_dirs}));
    Qcow2CreateOptions options;
    options.virtual_size = source->size();
    options.backing = TRY(bottom_of(qcow2::absolute_path(from)));
    TRY(Qcow2::create(to, options));
    auto copied = [&]() -> Result<void> {
        const auto made = TRY(Qcow2::open(to, {.backing_dirs = backing_dirs}));
        return copy_overlays(*source, *made);
    }();
    if (!copied.ok()) ::unlink(to.c_str());
    return copied;
}

}  // namespace boxlite::disk
