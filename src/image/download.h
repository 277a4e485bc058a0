// One blob on its way from a registry into the store, with readers that follow it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>

#include "image/blob_reader.h"
#include "image/pull.h"
#include "image/registry_client.h"
#include "image/store.h"

namespace boxlite::image {

// Passes progress of many blobs on to one callback, one call at a time. Thread safe.
class ProgressReporter {
  public:
    explicit ProgressReporter(std::function<void(const BlobProgress&)> callback)
        : callback_(std::move(callback)) {}
    void report(const BlobProgress& progress);

  private:
    std::mutex mutex_;
    std::function<void(const BlobProgress&)> callback_;
};

// run() is called once, by one thread; everything else is thread safe.
class Download {
  public:
    Download(Descriptor blob, ProgressReporter& reporter) : blob_(std::move(blob)), reporter_(reporter) {}

    const Descriptor& blob() const { return blob_; }

    // Gets the blob into the store, whoever downloads it: this process, or another that is at it already.
    void run(Store& store, RegistryClient& client, const Reference& reference, const std::stop_token& stop);

    // Waits for the end of run(). The error is the one that every reader gets too.
    Result<void> wait();
    // Waits for its end for no longer than that.
    void wait_for(std::chrono::milliseconds budget);
    bool failed();

    // A reader from the start of the blob. Must not outlive the download.
    std::unique_ptr<BlobReader> open_reader();

  private:
    class Reader;

    Result<void> fetch(Store& store, RegistryClient& client, const Reference& reference,
                       const std::stop_token& stop);
    Result<BlobStart> begin(Store& store, const std::stop_token& stop);
    Result<void> transfer(RegistryClient& client, const Reference& reference, BlobWriter writer, bool mirrors,
                          const std::stop_token& stop);
    void follow(base::Fd fd, uint64_t available);
    void advance(uint64_t available);
    void void_content();
    void report(BlobState state, uint64_t done);

    const Descriptor blob_;
    ProgressReporter& reporter_;
    std::chrono::steady_clock::time_point reported_at_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::shared_ptr<base::Fd> file_;  // being written, or complete
    uint64_t available_ = 0;
    int generation_ = 0;     // of the content: another one each time that bytes already shown became void
    bool verified_ = false;  // the content is the blob, though not in its place yet
    bool stored_ = false;    // what is read was in the store before, and is not looked through again
    std::optional<Result<void>> ended_;
};

}  // namespace boxlite::image
