#include "image/download.h"

#include <fcntl.h>
#include <unistd.h>

#include "image/backoff.h"

namespace boxlite::image {

namespace {

constexpr std::chrono::milliseconds kReportInterval{100};
constexpr uint64_t kWakeStep = 128 << 10;  // readers that have caught up are woken once for this many bytes
constexpr std::chrono::milliseconds kLookAgain{50};  // at a blob that another process is writing

}  // namespace

void ProgressReporter::report(const BlobProgress& progress) {
    if (!callback_) return;
    const std::lock_guard lock(mutex_);
    callback_(progress);
}

class Download::Reader : public BlobReader {
  public:
    explicit Reader(Download& download) : download_(download) {}

    Result<size_t> read(std::span<uint8_t> buffer) override {
        std::shared_ptr<base::Fd> file;
        size_t wanted = 0;
        {
            std::unique_lock lock(download_.mutex_);
            download_.changed_.wait(lock, [&] { return at_end() || download_.available_ > offset_; });
            if (download_.ended_ && !download_.ended_->ok()) return download_.ended_->error();
            if (offset_ == 0) generation_ = download_.generation_;
            if (generation_ != download_.generation_)
                return base::make_error(
                    ErrorCode::kImage,
                    "blob {} changed while it was read: an earlier download was damaged; try again",
                    download_.blob_.digest.to_string());
            file = download_.file_;
            wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), download_.available_ - offset_));
        }
        while (wanted > 0) {
            const ssize_t n = ::pread(file->get(), buffer.data(), wanted, static_cast<off_t>(offset_));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0)
                return base::errno_error(ErrorCode::kStorage, "read blob {}",
                                         download_.blob_.digest.to_string());
            if (n == 0)
                return base::make_error(ErrorCode::kStorage, "blob {} became shorter",
                                        download_.blob_.digest.to_string());
            offset_ += static_cast<uint64_t>(n);
            return static_cast<size_t>(n);
        }
        return size_t{0};
    }
    bool verifies() const override {
        const std::lock_guard lock(download_.mutex_);
        return !download_.stored_;
    }

  private:
    bool at_end() const {
        return download_.ended_ || (download_.verified_ && offset_ == download_.blob_.size);
    }

    Download& download_;
    uint64_t offset_ = 0;
    int generation_ = 0;
};

std::unique_ptr<BlobReader> Download::open_reader() {
    return std::make_unique<Reader>(*this);
}

void Download::run(Store& store, RegistryClient& client, const Reference& reference,
                   const std::stop_token& stop) {
    Result<void> result = fetch(store, client, reference, stop);
    if (result.ok()) {
        // Readers go on from here at the file that stays.
        auto file = store.open_blob(blob_);
        if (file.ok())
            follow(std::move(file).value(), blob_.size);
        else
            result = std::move(file).error();
    }
    const std::lock_guard lock(mutex_);
    ended_ = std::move(result);
    changed_.notify_all();
}

Result<void> Download::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_.has_value(); });
    return *ended_;
}

void Download::wait_for(std::chrono::milliseconds budget) {
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, budget, [&] { return ended_.has_value(); });
}

bool Download::failed() {
    const std::lock_guard lock(mutex_);
    return ended_ && !ended_->ok();
}

Result<void> Download::fetch(Store& store, RegistryClient& client, const Reference& reference,
                             const std::stop_token& stop) {
    for (bool again = false;; again = true) {
        BlobStart start = TRY(begin(store, stop));
        if (start.present) {
            {
                const std::lock_guard lock(mutex_);
                stored_ = true;
            }
            report(BlobState::kPresent, blob_.size);
            return {};
        }
        const bool resumed = start.writer->offset() > 0;
        auto result = transfer(client, reference, std::move(*start.writer), !again, stop);
        // What an earlier process left may have been damaged, a mirror may be wrong: once more, from the
        // start and from the registry itself.
        const bool mismatch = !result.ok() && result.error().code == ErrorCode::kImage;
        if (!mismatch || again || !(resumed || client.has_mirrors(reference))) return result;
        void_content();
    }
}

Result<BlobStart> Download::begin(Store& store, const std::stop_token& stop) {
    for (;;) {
        if (stop.stop_requested()) return base::make_error(ErrorCode::kStopped, "stopped");
        BlobStart start = TRY(store.begin_blob(blob_));
        if (start.present || start.writer) return start;
        report(BlobState::kWaiting, store.partial_size(blob_.digest));
        (void)sleep_unless_stopped(kLookAgain, stop);
    }
}

Result<void> Download::transfer(RegistryClient& client, const Reference& reference, BlobWriter writer,
                                bool mirrors, const std::stop_token& stop) {
    // Opened anew: a duplicate would share, and prolong, the writer's lock.
    follow(TRY(base::open_file(fmt::format("/proc/self/fd/{}", writer.fd()), O_RDONLY)), writer.offset());
    report(BlobState::kDownloading, writer.offset());
    const BlobEvents events{
        .advanced =
            [this](uint64_t offset) {
                advance(offset);
                if (std::chrono::steady_clock::now() - reported_at_ >= kReportInterval)
                    report(BlobState::kDownloading, offset);
            },
        .retrying = [&] { report(BlobState::kRetrying, writer.offset()); },
        .restarted = [this] { void_content(); },
    };
    auto fetched = client.get_blob(reference, blob_, writer, events, mirrors, stop);
    // A full disk is not helped by what cannot be finished.
    if (!fetched.ok() && fetched.error().code == ErrorCode::kStorage) writer.discard();
    TRY(std::move(fetched));
    TRY(writer.verify());
    {
        // Readers need not wait for the disk.
        const std::lock_guard lock(mutex_);
        verified_ = true;
        changed_.notify_all();
    }
    TRY(writer.commit());
    report(BlobState::kDone, blob_.size);
    return {};
}

void Download::follow(base::Fd fd, uint64_t available) {
    const std::lock_guard lock(mutex_);
    file_ = std::make_shared<base::Fd>(std::move(fd));
    available_ = available;
    changed_.notify_all();
}

void Download::advance(uint64_t available) {
    const std::lock_guard lock(mutex_);
    if (available / kWakeStep != available_ / kWakeStep || available == blob_.size) changed_.notify_all();
    available_ = available;
}

void Download::void_content() {
    const std::lock_guard lock(mutex_);
    available_ = 0;
    ++generation_;
}

void Download::report(BlobState state, uint64_t done) {
    reported_at_ = std::chrono::steady_clock::now();
    reporter_.report({blob_.digest, done, blob_.size, state});
}

}  // namespace boxlite::image
