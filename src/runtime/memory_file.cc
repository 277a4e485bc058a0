#include "runtime/memory_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/sparse_file.h"
#include "image/digest.h"

namespace boxlite::runtime {

namespace {

constexpr uint64_t kPage = 4096;

bool is_zero(base::ByteView page) {
    return std::all_of(page.begin(), page.end(), [](uint8_t byte) { return byte == 0; });
}

}  // namespace

Result<void> write_layer_file(int file, int memory, const v1::MemoryLayer& layer, uint64_t bytes) {
    if (::ftruncate(file, static_cast<off_t>(bytes)) < 0)
        return base::errno_error(ErrorCode::kStorage, "make a file of {} bytes", bytes);
    for (const auto& run : layer.runs())
        TRY(base::for_each_data(
            memory, run.offset(), run.offset() + run.size(),
            [&](uint64_t at, base::ByteView data) { return base::pwrite_all(file, data, at); }));
    return {};
}

Result<std::string> memory_file_sha256(int file) {
    struct stat st;
    if (::fstat(file, &st) < 0) return base::errno_error(ErrorCode::kStorage, "look at the memory");
    image::Hasher hasher = TRY(image::Hasher::make());
    TRY(base::for_each_data(
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
