// Any bytes as a qcow2 image: opening, reading and changing it neither crashes nor reads outside memory.
#include <cstdlib>
#include <cstring>

#include "base/file.h"
#include "disk/qcow2.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace boxlite;

constexpr uint64_t kMaxFile = uint64_t{64} << 20;

// The image in memory; writes far away fail like a full disk.
class FuzzIo final : public disk::BlockIo {
  public:
    explicit FuzzIo(base::ByteView image) : content_(image.begin(), image.end()) {}

    Result<void> readv(uint64_t offset, std::span<const iovec> into) override {
        for (const iovec& v : into) {
            std::memset(v.iov_base, 0, v.iov_len);
            if (offset < content_.size())
                std::memcpy(v.iov_base, &content_[offset],
                            std::min<uint64_t>(v.iov_len, content_.size() - offset));
            offset += v.iov_len;
        }
        return {};
    }
    Result<void> writev(uint64_t offset, std::span<const iovec> from) override {
        for (const iovec& v : from) {
            if (v.iov_len == 0) continue;
            if (offset + v.iov_len > kMaxFile) return base::make_error(ErrorCode::kResourceExhausted, "full");
            if (content_.size() < offset + v.iov_len) content_.resize(offset + v.iov_len);
            std::memcpy(&content_[offset], v.iov_base, v.iov_len);
            offset += v.iov_len;
        }
        return {};
    }
    Result<void> zero(uint64_t offset, uint64_t length) override {
        for (uint64_t i = offset; i < std::min<uint64_t>(content_.size(), offset + length); ++i)
            content_[i] = 0;
        return {};
    }
    Result<void> punch(uint64_t offset, uint64_t length) override { return zero(offset, length); }
    Result<void> sync() override { return {}; }
    Result<uint64_t> size() override { return uint64_t{content_.size()}; }
    Result<uint64_t> allocated() override { return size(); }

  private:
    base::Bytes content_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    for (const bool read_only : {true, false}) {
        auto opened = disk::Qcow2::open_on(std::make_unique<FuzzIo>(base::ByteView(data, size)), "/nowhere",
                                           {.read_only = read_only});
        if (!opened.ok()) continue;
        disk::Qcow2& image = **opened;
        base::Bytes buffer(70000, 0x5a);
        for (uint64_t offset :
             {uint64_t{0}, image.size() / 2, image.size() - std::min<uint64_t>(image.size(), 70000)}) {
            const std::span<uint8_t> part(buffer.data(),
                                          std::min<uint64_t>(buffer.size(), image.size() - offset));
            (void)image.read(offset, part);
            (void)image.write(offset, part);
            (void)image.discard(offset, part.size());
        }
        (void)image.flush();
        (void)image.grow(image.size() / 512 * 512 + (1 << 20));
        (void)image.write_zeroes(0, std::min<uint64_t>(image.size(), 1 << 22));
        (void)image.close();
    }
    return 0;
}

std::vector<std::string> boxlite::fuzz::seeds() {
    const auto folder = base::TempDir::make().value();
    std::vector<std::string> all;
    for (const unsigned cluster_bits : {9u, 12u}) {
        const std::string path = fmt::format("{}/{}", folder.path(), cluster_bits);
        if (!disk::Qcow2::create(path, {.virtual_size = 1 << 20, .cluster_bits = cluster_bits}).ok())
            std::abort();
        all.push_back(base::read_file(path).value());
        {
            const auto image = disk::Qcow2::open(path, {}).value();
            const base::Bytes content(5000, 0x5a);
            for (const uint64_t offset : {uint64_t{0}, uint64_t{300000}})
                if (!image->write(offset, content).ok()) std::abort();
            if (!image->write_zeroes(4096, 4096).ok() || !image->close().ok()) std::abort();
        }
        all.push_back(base::read_file(path).value());
    }
    return all;
}
