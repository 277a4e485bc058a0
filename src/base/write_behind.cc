#include "base/write_behind.h"

#include <fcntl.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace boxlite::base {

namespace {

constexpr uint64_t kPiece = uint64_t{8} << 20;

}  // namespace

class WriteBehind::Syncer {
  public:
    explicit Syncer(int fd) : fd_(fd), thread_([this] { serve(); }) {}
    ~Syncer() {
        {
            const std::lock_guard lock(mutex_);
            ending_ = true;
        }
        changed_.notify_one();
        thread_.join();
    }

    // Nothing while the last one goes on.
    void sync() {
        {
            const std::lock_guard lock(mutex_);
            if (wanted_) return;
            wanted_ = true;
        }
        changed_.notify_one();
    }

  private:
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return wanted_ || ending_; });
            if (ending_) return;
            lock.unlock();
            (void)::fdatasync(fd_);
            lock.lock();
            wanted_ = false;
        }
    }

    const int fd_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool wanted_ = false;
    bool ending_ = false;
    std::thread thread_;
};

WriteBehind::WriteBehind() = default;
WriteBehind::~WriteBehind() = default;
WriteBehind::WriteBehind(WriteBehind&&) noexcept = default;
WriteBehind& WriteBehind::operator=(WriteBehind&&) noexcept = default;

void WriteBehind::wrote(int fd, uint64_t bytes) {
    waiting_ += bytes;
    if (waiting_ < kPiece) return;
    (void)::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (!syncer_) syncer_ = std::make_unique<Syncer>(fd);
    syncer_->sync();
    waiting_ = 0;
}

}  // namespace boxlite::base
