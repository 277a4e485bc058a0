#include "disk/ext4_io.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <vector>

namespace boxlite::disk {

namespace {

constexpr uint64_t kPageSize = 4096;
constexpr size_t kMaxPages = 4096;  // 16 MiB
constexpr size_t kMaxRun = 256;     // pages of one write

class ImageChannel {
  public:
    static errcode_t open(const char* name, int flags, io_channel* channel);
    static ImageChannel& of(io_channel channel) { return *static_cast<ImageChannel*>(channel->private_data); }

    errcode_t read(uint64_t offset, uint64_t length, uint8_t* out);
    errcode_t write(uint64_t offset, uint64_t length, const uint8_t* data);
    errcode_t write_back();
    errcode_t zero(uint64_t offset, uint64_t length);
    errcode_t fail(const char* what);

    struct_io_channel channel{};
    std::string failure;

  private:
    struct Page {
        std::array<uint8_t, kPageSize> data;
        bool dirty = false;
    };

    // The page at `index`, read from the file unless the caller overwrites all of it.
    errcode_t page(uint64_t index, bool overwrite, Page** out);
    errcode_t write_run(const std::vector<std::pair<uint64_t, Page*>>& pages, size_t begin, size_t end);

    int fd_ = -1;
    std::string name_;
    std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
};

errcode_t ImageChannel::fail(const char* what) {
    const int saved = errno;
    failure = Error::from_errno(ErrorCode::kStorage, what, saved).message;
    return saved;
}

errcode_t ImageChannel::page(uint64_t index, bool overwrite, Page** out) {
    if (const auto found = pages_.find(index); found != pages_.end()) {
        *out = found->second.get();
        return 0;
    }
    if (pages_.size() >= kMaxPages) {
        if (const errcode_t code = write_back()) return code;
        pages_.clear();
    }
    auto page = std::make_unique_for_overwrite<Page>();
    size_t done = 0;
    while (!overwrite && done < kPageSize) {
        const auto offset = static_cast<off_t>(index * kPageSize + done);
        const ssize_t n = ::pread(fd_, page->data.data() + done, kPageSize - done, offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail("read the disk image");
        if (n == 0) break;
        done += static_cast<size_t>(n);
    }
    if (!overwrite)
        std::fill(page->data.begin() + static_cast<ptrdiff_t>(done), page->data.end(), uint8_t{0});
    *out = page.get();
    pages_.emplace(index, std::move(page));
    return 0;
}

errcode_t ImageChannel::read(uint64_t offset, uint64_t length, uint8_t* out) {
    while (length > 0) {
        const uint64_t within = offset % kPageSize;
        const uint64_t n = std::min(length, kPageSize - within);
        Page* cached = nullptr;
        if (const errcode_t code = page(offset / kPageSize, false, &cached)) return code;
        std::memcpy(out, cached->data.data() + within, n);
        offset += n;
        length -= n;
        out += n;
    }
    return 0;
}

errcode_t ImageChannel::write(uint64_t offset, uint64_t length, const uint8_t* data) {
    while (length > 0) {
        const uint64_t within = offset % kPageSize;
        const uint64_t n = std::min(length, kPageSize - within);
        Page* cached = nullptr;
        if (const errcode_t code = page(offset / kPageSize, n == kPageSize, &cached)) return code;
        std::memcpy(cached->data.data() + within, data, n);
        cached->dirty = true;
        offset += n;
        length -= n;
        data += n;
    }
    return 0;
}

errcode_t ImageChannel::write_run(const std::vector<std::pair<uint64_t, Page*>>& pages, size_t begin,
                                  size_t end) {
    std::vector<iovec> parts;
    for (size_t i = begin; i < end; ++i) parts.push_back({pages[i].second->data.data(), kPageSize});
    auto offset = static_cast<off_t>(pages[begin].first * kPageSize);
    for (size_t first = 0; first < parts.size();) {
        const ssize_t n = ::pwritev(fd_, &parts[first], static_cast<int>(parts.size() - first), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail("write the disk image");
        offset += n;
        for (auto left = static_cast<size_t>(n); left > 0;) {
            const size_t taken = std::min(left, parts[first].iov_len);
            parts[first].iov_base = static_cast<uint8_t*>(parts[first].iov_base) + taken;
            parts[first].iov_len -= taken;
            left -= taken;
            if (parts[first].iov_len == 0) ++first;
        }
    }
    for (size_t i = begin; i < end; ++i) pages[i].second->dirty = false;
    return 0;
}

errcode_t ImageChannel::write_back() {
    std::vector<std::pair<uint64_t, Page*>> dirty;
    for (const auto& [index, page] : pages_)
        if (page->dirty) dirty.emplace_back(index, page.get());
    std::sort(dirty.begin(), dirty.end());
    for (size_t begin = 0; begin < dirty.size();) {
        size_t end = begin + 1;
        while (end < dirty.size() && end - begin < kMaxRun && dirty[end].first == dirty[end - 1].first + 1)
            ++end;
        if (const errcode_t code = write_run(dirty, begin, end)) return code;
        begin = end;
    }
    return 0;
}

errcode_t ImageChannel::zero(uint64_t offset, uint64_t length) {
    if (offset % kPageSize != 0 || length % kPageSize != 0) return EXT2_ET_UNIMPLEMENTED;
    if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(length)) < 0)
        return EXT2_ET_UNIMPLEMENTED;  // libext2fs writes zeroes instead
    std::erase_if(pages_, [&](const auto& entry) {
        const uint64_t at = entry.first * kPageSize;
        return at >= offset && at - offset < length;
    });
    return 0;
}

// libext2fs counts in blocks of the size last set; a negative count is a number of bytes.
uint64_t byte_length(io_channel channel, int count) {
    if (count < 0) return static_cast<uint64_t>(-static_cast<int64_t>(count));
    return static_cast<uint64_t>(count) * static_cast<uint64_t>(channel->block_size);
}
uint64_t byte_offset(io_channel channel, unsigned long long block) {
    return block * static_cast<uint64_t>(channel->block_size);
}

errcode_t close_channel(io_channel channel) {
    if (--channel->refcount > 0) return 0;
    const std::unique_ptr<ImageChannel> owner(&ImageChannel::of(channel));
    return 0;  // what was not flushed belongs to an abandoned image
}
errcode_t set_block_size(io_channel channel, int size) {
    channel->block_size = size;
    return 0;
}
errcode_t read_blocks64(io_channel channel, unsigned long long block, int count, void* data) {
    return ImageChannel::of(channel).read(byte_offset(channel, block), byte_length(channel, count),
                                          static_cast<uint8_t*>(data));
}
errcode_t read_blocks(io_channel channel, unsigned long block, int count, void* data) {
    return read_blocks64(channel, block, count, data);
}
errcode_t write_blocks64(io_channel channel, unsigned long long block, int count, const void* data) {
    return ImageChannel::of(channel).write(byte_offset(channel, block), byte_length(channel, count),
                                           static_cast<const uint8_t*>(data));
}
errcode_t write_blocks(io_channel channel, unsigned long block, int count, const void* data) {
    return write_blocks64(channel, block, count, data);
}
errcode_t write_bytes(io_channel channel, unsigned long offset, int size, const void* data) {
    return ImageChannel::of(channel).write(offset, static_cast<uint64_t>(size),
                                           static_cast<const uint8_t*>(data));
}
errcode_t flush(io_channel channel) {
    return ImageChannel::of(channel).write_back();
}
errcode_t zero_blocks(io_channel channel, unsigned long long block, unsigned long long count) {
    return ImageChannel::of(channel).zero(byte_offset(channel, block), byte_offset(channel, count));
}

}  // namespace

errcode_t ImageChannel::open(const char* name, int, io_channel* channel) {
    auto self = std::make_unique<ImageChannel>();
    self->name_ = name;
    const char* end = self->name_.data() + self->name_.size();
    if (const auto parsed = std::from_chars(self->name_.data(), end, self->fd_); parsed.ptr != end)
        return EXT2_ET_BAD_DEVICE_NAME;
    self->channel.magic = EXT2_ET_MAGIC_IO_CHANNEL;
    self->channel.manager = ext4_io_manager();
    self->channel.name = self->name_.data();
    self->channel.block_size = 1024;
    self->channel.refcount = 1;
    self->channel.private_data = self.get();
    *channel = &self.release()->channel;
    return 0;
}

io_manager ext4_io_manager() {
    // libext2fs never changes it, but its type has no const.
    static struct_io_manager manager = {
        .magic = EXT2_ET_MAGIC_IO_MANAGER,
        .name = "BoxLite disk image",
        .open = ImageChannel::open,
        .close = close_channel,
        .set_blksize = set_block_size,
        .read_blk = read_blocks,
        .write_blk = write_blocks,
        .flush = flush,
        .write_byte = write_bytes,
        .read_blk64 = read_blocks64,
        .write_blk64 = write_blocks64,
        .zeroout = zero_blocks,
    };
    return &manager;
}

const std::string& ext4_io_failure(io_channel channel) {
    return ImageChannel::of(channel).failure;
}

}  // namespace boxlite::disk
