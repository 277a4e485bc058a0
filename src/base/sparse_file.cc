#include "base/sparse_file.h"

#include <unistd.h>

#include <algorithm>

#include "base/fd.h"

namespace boxlite::base {

Result<void> for_each_data(int file, uint64_t from, uint64_t to,
                           const std::function<Result<void>(uint64_t at, ByteView data)>& use) {
    constexpr uint64_t kPage = 4096, kChunk = uint64_t{1} << 20;
    Bytes buffer(kChunk);
    while (from < to) {
        const off_t data = ::lseek(file, static_cast<off_t>(from), SEEK_DATA);
        if (data < 0 && errno == ENXIO) return {};
        const off_t hole = data < 0 ? -1 : ::lseek(file, data, SEEK_HOLE);
        if (hole < 0) return errno_error(ErrorCode::kStorage, "find the data of a sparse file");
        from = std::max(from, static_cast<uint64_t>(data) & ~(kPage - 1));
        const uint64_t end = std::min(to, (static_cast<uint64_t>(hole) + kPage - 1) & ~(kPage - 1));
        while (from < end) {
            const auto piece = std::span(buffer).first(std::min(kChunk, end - from));
            TRY(pread_exact(file, piece, from));
            TRY(use(from, ByteView(piece)));
            from += piece.size();
        }
    }
    return {};
}

}  // namespace boxlite::base
