#include "runtime/memory_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "image/digest.h"

namespace boxlite::runtime {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kChunk = uint64_t{1} << 20;

// Calls `use` with each piece of data between two offsets, in order, in whole pages and at most kChunk at
// once.
template <typename Use>
Result<void> for_each_piece(int file, uint64_t from, uint64_t to, Use&& use) {
    base::Bytes buffer(kChunk);
    while (from < to) {
        const off_t data = ::lseek(file, static_cast<off_t>(from), SEEK_DATA);
        if (data < 0 && errno == ENXIO) return {};
        const off_t hole = data < 0 ? -1 : ::lseek(file, data, SEEK_HOLE);
        if (hole < 0) return base::errno_error(ErrorCode::kStorage, "find the memory's data");
        from = std::max(from, static_cast<uint64_t>(data) & ~(kPage - 1));
        const uint64_t end = std::min(to, (static_cast<uint64_t>(hole) + kPage - 1) & ~(kPage - 1));
        while (from < end) {
            const auto piece = std::span(buffer).first(std::min(kChunk, end - from));
            TRY(base::pread_exact(file, piece, from));
            TRY(use(from, base::ByteView(piece)));
            from += piece.size();
        }
    }
    return {};
}

bool is_zero(base::ByteView page) {
    return std::all_of(page.begin(), page.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

Result<void> write_memory_file(int file, const CapturedMachine& machine, uint64_t bytes) {
    if (::ftruncate(file, static_cast<off_t>(bytes)) < 0)
        return base::errno_error(ErrorCode::kStorage, "make a file of {} bytes", bytes);
    for (size_t i = 0; i < machine.memory.size(); ++i)
        for (const auto& run : machine.image.layers(static_cast<int>(i)).runs()) {
            // A page of a later layer counts also where it is a hole.
            if (i > 0 && ::lseek(file, static_cast<off_t>(run.offset()), SEEK_DATA) >= 0)
                TRY(base::pwrite_all(file, base::Bytes(run.size()), run.offset()));
            TRY(for_each_piece(
                machine.memory[i].get(), run.offset(), run.offset() + run.size(),
                [&](uint64_t at, base::ByteView data) { return base::pwrite_all(file, data, at); }));
        }
    return {};
}

Result<std::string> memory_file_sha256(int file) {
    struct stat st;
    if (::fstat(file, &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at the memory");
    image::Hasher hasher = TRY(image::Hasher::make());
    TRY(for_each_piece(
        file, 0, static_cast<uint64_t>(st.st_size), [&](uint64_t at, base::ByteView data) -> Result<void> {
            for (size_t i = 0; i < data.size(); i += kPage) {
                const base::ByteView page = data.subspan(i, std::min<size_t>(kPage, data.size() - i));
                if (is_zero(page)) continue;
                uint8_t offset[8];
                base::store_le<uint64_t>(offset, at + i);
                hasher.update(offset);
                hasher.update(page);
            }
            return {};
        }));
    return std::string(TRY(hasher.finish()).hex());
}

}  // namespace boxlite::runtime
