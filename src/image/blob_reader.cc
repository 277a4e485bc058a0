#include "image/blob_reader.h"

#include <unistd.h>

namespace boxlite::image {

Result<size_t> FileBlobReader::read(std::span<uint8_t> buffer) {
    for (;;) {
        const ssize_t n = ::read(fd_.get(), buffer.data(), buffer.size());
        if (n >= 0) return static_cast<size_t>(n);
        if (errno != EINTR) return base::errno_error(ErrorCode::kStorage, "read a layer");
    }
}

}  // namespace boxlite::image
