#include "disk/qcow2.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "disk/qcow2_backing.h"
#include "disk/qcow2_engine.h"
#include "disk/raw_file.h"

namespace boxlite::disk {

struct Qcow2::State {
    std::unique_ptr<qcow2::Engine> engine;  // null once closed
    bool read_only = false;
    std::optional<Backing> backing;
};

namespace {

Error closed() {
    return base::make_error(ErrorCode::kInvalidState, "the disk is closed");
}

std::string folder_of(const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
}

// Opens images from the top of a chain down.
class Chain {
  public:
    explicit Chain(const std::vector<std::string>& dirs) : dirs_(dirs) {}

    Result<std::unique_ptr<qcow2::Engine>> open(std::unique_ptr<BlockIo> io, const std::string& folder,
                                                bool read_only) {
        qcow2::Header header = TRY(qcow2::read_header(*io));
        std::unique_ptr<BlockBackend> backing;
        if (header.backing) backing = TRY(open_backing(*header.backing, folder));
        auto engine = std::make_unique<qcow2::Engine>(std::move(io), std::move(header), std::move(backing));
        TRY(engine->start(read_only));
        return engine;
    }

    void enter(const std::string& path) { above_.push_back(path); }

  private:
    Result<std::unique_ptr<BlockBackend>> open_backing(const Backing& backing, const std::string& folder) {
        qcow2::BackingFile file = TRY(qcow2::open_backing(backing, folder, dirs_, above_));
        enter(file.path);
        if (backing.format == ImageFormat::kRaw)
            return std::unique_ptr<BlockBackend>(TRY(RawFile::on(std::move(file.io), true)));
        auto engine =
            TRY_CONTEXT(open(std::move(file.io), file.folder, true), fmt::format("'{}'", file.path));
        return std::unique_ptr<BlockBackend>(std::move(engine));
    }

    const std::vector<std::string>& dirs_;
    std::vector<std::string> above_;  // paths from the top down
};

}  // namespace

Result<Qcow2Info> qcow2_info(const std::string& path) {
    const auto io = TRY(make_file_io(TRY(base::open_file(path, O_RDONLY | O_NOFOLLOW)), path));
    qcow2::Header header = TRY_CONTEXT(qcow2::read_header(*io), fmt::format("'{}'", path));
    return Qcow2Info{header.virtual_size, std::move(header.backing)};
}

Result<void> Qcow2::create(const std::string& path, const Qcow2CreateOptions& options) {
    base::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd.valid())
        return base::errno_error(errno == EEXIST ? ErrorCode::kAlreadyExists : ErrorCode::kStorage,
                                 "create disk '{}'", path);
    const auto write = [&]() -> Result<void> {
        auto io = TRY(make_file_io(std::move(fd), path));
        TRY(qcow2::write_new_image(*io, options));
        if (!options.durable) return {};
        const std::string folder = folder_of(path);
        return base::sync_directory(folder.empty() ? "." : folder);
    };
    auto written = write();
    if (!written.ok()) ::unlink(path.c_str());
    return written;
}

Result<std::unique_ptr<Qcow2>> Qcow2::open(const std::string& path, const Qcow2OpenOptions& options) {
    auto io = TRY(open_file_io(-1, path, options.read_only));
    const std::string absolute = qcow2::absolute_path(path);
    return open_image(std::move(io), absolute, folder_of(absolute), options);
}

Result<std::unique_ptr<Qcow2>> Qcow2::open_on(std::unique_ptr<BlockIo> io, const std::string& folder,
                                              const Qcow2OpenOptions& options) {
    return open_image(std::move(io), "disk", qcow2::absolute_path(folder), options);
}

Result<std::unique_ptr<Qcow2>> Qcow2::open_image(std::unique_ptr<BlockIo> io, const std::string& name,
                                                 const std::string& folder, const Qcow2OpenOptions& options) {
    Chain chain(options.backing_dirs);
    chain.enter(name);
    auto state = std::make_unique<State>();
    state->engine = TRY_CONTEXT(chain.open(std::move(io), folder, options.read_only),
                                fmt::format("cannot open '{}'", name));
    state->read_only = options.read_only;
    state->backing = state->engine->header().backing;
    return std::unique_ptr<Qcow2>(new Qcow2(std::move(state)));
}

Qcow2::Qcow2(std::unique_ptr<State> state) : state_(std::move(state)) {}

Qcow2::~Qcow2() {
    if (!state_->engine) return;
    if (auto flushed = flush(); !flushed.ok())
        base::log_error("a disk was not flushed when it was closed", {{"error", flushed.error().message}});
}

Result<void> Qcow2::readv(uint64_t offset, std::span<const iovec> into) {
    return state_->engine ? state_->engine->readv(offset, into) : closed();
}
Result<void> Qcow2::writev(uint64_t offset, std::span<const iovec> from) {
    return state_->engine ? state_->engine->writev(offset, from) : closed();
}
Result<void> Qcow2::discard(uint64_t offset, uint64_t length) {
    return state_->engine ? state_->engine->discard(offset, length) : closed();
}
Result<void> Qcow2::write_zeroes(uint64_t offset, uint64_t length) {
    return state_->engine ? state_->engine->write_zeroes(offset, length) : closed();
}
Result<void> Qcow2::flush() {
    return state_->engine ? state_->engine->flush() : closed();
}
Result<void> Qcow2::grow(uint64_t new_size) {
    return state_->engine ? state_->engine->grow(new_size) : closed();
}
Result<Qcow2::Run> Qcow2::run_at(uint64_t offset, uint64_t length) {
    return state_->engine ? state_->engine->run_at(offset, length) : closed();
}
uint64_t Qcow2::size() const {
    return state_->engine ? state_->engine->size() : 0;
}
bool Qcow2::read_only() const {
    return state_->read_only;
}
const std::optional<Backing>& Qcow2::backing() const {
    return state_->backing;
}

Result<uint64_t> Qcow2::allocated_size() {
    if (!state_->engine) return closed();
    return state_->engine->io().allocated();
}

Result<void> Qcow2::close() {
    TRY(flush());
    state_->engine.reset();
    return {};
}

}  // namespace boxlite::disk
