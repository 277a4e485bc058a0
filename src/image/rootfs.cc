#include "image/rootfs.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/id.h"
#include "disk/ext4_writer.h"
#include "image/layer_apply.h"

namespace boxlite::image {

namespace {

constexpr std::string_view kTemporary = ".tmp-";

// Builders hold a lock on their file, so one that can be locked belongs to nobody.
void remove_abandoned(const std::filesystem::path& output) {
    const std::string prefix = output.filename().string() + std::string(kTemporary);
    const std::filesystem::path parent = output.has_parent_path() ? output.parent_path() : ".";
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator(parent, error); !error && entry != end(entry);
         entry.increment(error)) {
        if (!entry->path().filename().string().starts_with(prefix)) continue;
        const auto fd = base::open_file(entry->path().string(), O_RDONLY | O_NOFOLLOW);
        if (fd.ok() && ::flock(fd->get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry->path().c_str());
    }
}

Result<disk::Ext4Options> ext4_options(std::string_view identity, const RootfsOptions& options) {
    disk::Ext4Options ext4;
    ext4.size = options.disk_size;
    ext4.timestamp = options.timestamp;
    const Digest digest = TRY(Digest::of(base::as_bytes(fmt::format("boxlite base image {}", identity))));
    const std::string_view hex = digest.hex();
    for (size_t i = 0; i < 32; ++i) {
        uint8_t& to = i < 16 ? ext4.uuid[i] : ext4.hash_seed[i - 16];
        std::from_chars(&hex[2 * i], &hex[2 * i] + 2, to, 16);
    }
    ext4.uuid[6] =
        static_cast<uint8_t>((ext4.uuid[6] & 0x0f) | 0x80);  // RFC 9562 version 8: of our own making
    ext4.uuid[8] = static_cast<uint8_t>((ext4.uuid[8] & 0x3f) | 0x80);
    return ext4;
}

class MemoryBlobReader : public BlobReader {
  public:
    explicit MemoryBlobReader(std::span<const uint8_t> data) : data_(data) {}
    Result<size_t> read(std::span<uint8_t> buffer) override {
        const size_t n = std::min(buffer.size(), data_.size());
        std::copy_n(data_.begin(), n, buffer.begin());
        data_ = data_.subspan(n);
        return n;
    }

  private:
    std::span<const uint8_t> data_;
};

}  // namespace

struct RootfsBuilder::State {
    ~State() {
        writer.reset();
        if (!temporary.empty()) ::unlink(temporary.c_str());
    }
    Result<void> extend_chain(const std::optional<Digest>& diff_id);

    std::string output;
    std::string temporary;  // "" once it is in place
    RootfsOptions options;
    base::Fd fd;
    std::unique_ptr<disk::Ext4Writer> writer;  // until the file is sealed
    disk::Ext4Summary summary;
    std::optional<ImageRoot> root;
    uint64_t entries = 0;
    std::string chain_id;
    bool chain_known = true;
};

Result<RootfsBuilder> RootfsBuilder::create(const std::string& output, std::string_view identity,
                                            const RootfsOptions& options) {
    auto state = std::make_unique<State>();
    state->output = output;
    state->options = options;
    remove_abandoned(output);
    const std::string temporary = fmt::format("{}{}{}", output, kTemporary, base::random_id(8));
    state->fd = TRY(base::open_file(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    state->temporary = temporary;
    if (::flock(state->fd.get(), LOCK_EX | LOCK_NB) < 0)
        return base::errno_error(ErrorCode::kStorage, "lock '{}'", temporary);
    const disk::Ext4Options ext4 = TRY(ext4_options(identity, options));
    state->writer = TRY_CONTEXT(disk::Ext4Writer::create(state->fd.get(), ext4), output);
    state->root.emplace(*state->writer, options.timestamp);
    return RootfsBuilder(std::move(state));
}

RootfsBuilder::RootfsBuilder(std::unique_ptr<State> state) : state_(std::move(state)) {}
RootfsBuilder::RootfsBuilder(RootfsBuilder&&) noexcept = default;
RootfsBuilder& RootfsBuilder::operator=(RootfsBuilder&&) noexcept = default;
RootfsBuilder::~RootfsBuilder() = default;

// OCI image specification 1.1, "Layer ChainID".
Result<void> RootfsBuilder::State::extend_chain(const std::optional<Digest>& diff_id) {
    if (!diff_id) chain_known = false;
    if (!chain_known) return {};
    chain_id = chain_id.empty()
                   ? diff_id->to_string()
                   : TRY(Digest::of(base::as_bytes(chain_id + " " + diff_id->to_string()))).to_string();
    return {};
}

Result<void> RootfsBuilder::add_layer(const LayerSpec& layer, BlobReader& blob) {
    const std::string name = layer.digest ? "layer " + layer.digest->to_string() : "layer";
    LayerStream stream(blob, layer, state_->options.limits);
    TarReader archive(stream);
    const uint64_t entries_left = state_->options.limits.max_entries - state_->entries;
    state_->entries += TRY_CONTEXT(apply_layer(*state_->root, archive, entries_left), name);
    TRY_CONTEXT(stream.finish(), name);
    return state_->extend_chain(layer.diff_id);
}

Result<void> RootfsBuilder::seal() {
    State& state = *state_;
    state.summary = TRY_CONTEXT(state.writer->finish(), state.output);
    state.writer.reset();
    if (::fdatasync(state.fd.get()) < 0)
        return base::errno_error(ErrorCode::kStorage, "sync '{}'", state.output);
    return {};
}

Result<RootfsInfo> RootfsBuilder::finish() {
    State& state = *state_;
    if (state.writer) TRY(seal());
    struct stat st;
    if (::fstat(state.fd.get(), &st) < 0)
        return base::errno_error(ErrorCode::kStorage, "stat '{}'", state.output);
    if (::rename(state.temporary.c_str(), state.output.c_str()) < 0)
        return base::errno_error(ErrorCode::kStorage, "rename '{}' into place", state.output);
    state.temporary.clear();
    const std::filesystem::path parent = std::filesystem::path(state.output).parent_path();
    TRY(base::sync_directory(parent.empty() ? "." : parent.string()));
    return RootfsInfo{state.chain_known ? state.chain_id : "", state.summary.inodes, state.summary.used_bytes,
                      static_cast<uint64_t>(st.st_blocks) * 512};
}

LayerSpec layer_spec(const Layer& layer) {
    return {.media_type = layer.descriptor.media_type,
            .digest = layer.descriptor.digest,
            .size = layer.descriptor.size,
            .diff_id = layer.diff_id};
}

Result<RootfsInfo> build_rootfs(const std::string& output, const Image& image,
                                const std::function<Result<std::unique_ptr<BlobReader>>(size_t)>& open_layer,
                                const RootfsOptions& options) {
    const Digest chain_id = TRY(image.chain_id());
    RootfsBuilder builder = TRY(RootfsBuilder::create(output, chain_id.to_string(), options));
    for (size_t i = 0; i < image.layers.size(); ++i) {
        const std::unique_ptr<BlobReader> blob = TRY(open_layer(i));
        TRY(builder.add_layer(layer_spec(image.layers[i]), *blob));
    }
    return builder.finish();
}

Result<RootfsInfo> build_rootfs_from_tar(const std::string& output, std::span<const uint8_t> archive,
                                         const RootfsOptions& options) {
    const Digest digest = TRY(Digest::of(archive));
    RootfsBuilder builder = TRY(RootfsBuilder::create(output, digest.to_string(), options));
    MemoryBlobReader blob(archive);
    TRY(builder.add_layer(LayerSpec{}, blob));
    return builder.finish();
}

}  // namespace boxlite::image
