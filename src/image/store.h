// The image store: an OCI image layout (image-spec 1.1, "Image Layout") that any OCI tool can read.
//   oci-layout, index.json       each entry names one image: org.opencontainers.image.ref.name holds the
//                                full reference, for instance docker.io/library/alpine:latest
//   blobs/<algorithm>/<hex>      verified content, never changed
//   partial/<algorithm>-<hex>    downloads that can be resumed; locked while a process writes one
//   index.lock, gc.lock          held for a change of index.json; shared by users of blobs, exclusive for
//                                garbage collection (taken in the order gc, index)
//   gc.wanted                    a garbage collection was postponed
// Thread safe, and safe for any number of processes on one folder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/write_behind.h"
#include "image/digest.h"
#include "image/image.h"
#include "image/reference.h"

namespace boxlite::image {

struct StoredImage {
    Reference reference;
    Image image;
    int64_t stored_at_ns = 0;  // since the Unix epoch; 0 when another tool recorded the image
};

struct StoreUsage {
    uint64_t blob_count = 0;
    uint64_t blob_bytes = 0;
    uint64_t unreferenced_bytes = 0;  // part of blob_bytes: what collect_garbage() would free
    uint64_t partial_bytes = 0;
};

struct Removed {
    std::vector<Reference> untagged;
    uint64_t freed_bytes = 0;
    // True when another process was using blobs: the space is freed by the next pull or removal instead.
    bool postponed = false;
};

// Keeps every blob of the store from garbage collection while it lives.
class StoreLease {
  public:
    explicit StoreLease(base::FileLock lock) : lock_(std::move(lock)) {}

  private:
    base::FileLock lock_;
};

// One blob on its way into the store, resumable. Holds the blob's lock; dropping it keeps what was written.
// Not thread safe.
class BlobWriter {
  public:
    uint64_t offset() const { return offset_; }  // bytes written so far, earlier attempts included
    int fd() const { return fd_.get(); }         // for reading along
    // kImage when the blob would become larger than announced.
    Result<void> append(base::ByteView data);
    Result<void> restart();
    // Gives the space back, where it is short. Nothing but destruction may follow.
    void discard();
    // Size and digest, once all is written. On a mismatch the bytes are dropped and the error is kImage.
    Result<void> verify();
    // Verifies if that has not been done, makes the content durable and moves it into place.
    Result<void> commit();

  private:
    friend class Store;
    BlobWriter(base::Fd fd, Hasher hasher, Descriptor descriptor, std::string partial, std::string final_path)
        : fd_(std::move(fd)),
          hasher_(std::move(hasher)),
          descriptor_(std::move(descriptor)),
          partial_path_(std::move(partial)),
          final_path_(std::move(final_path)) {}
    Result<void> adopt_existing_bytes();
    Result<void> compare();

    base::Fd fd_;
    Hasher hasher_;
    Descriptor descriptor_;
    std::string partial_path_;
    std::string final_path_;
    uint64_t offset_ = 0;
    base::WriteBehind write_behind_;
    bool verified_ = false;
};

// Neither present nor a writer: another writer is at work, ask again a little later.
struct BlobStart {
    bool present = false;
    std::optional<BlobWriter> writer;
};

class Store {
  public:
    // Makes the layout when `root` has none. kStorage when it holds something else.
    static Result<Store> open(const std::string& root);

    const std::string& root() const { return root_; }

    // The image recorded under this reference. kNotFound when there is none.
    Result<Image> resolve(const Reference& reference) const;
    // `text` is a reference or an image id: the config or manifest digest, or at least 4 of its hex digits.
    Result<StoredImage> find(std::string_view text) const;
    // Every recorded image that can be read, in the order of index.json; broken entries are logged and left
    // out.
    Result<std::vector<StoredImage>> list() const;

    // Records `manifest`, whose blobs must be in the store, under `reference`, replacing what had that name.
    // `source` is the digest the registry knows the reference by (of the index, when there was one).
    Result<void> record(const Reference& reference, const Descriptor& manifest, const Digest& source);
    // The `source` given when this reference was recorded; nullopt when unknown.
    Result<std::optional<Digest>> source_digest(const Reference& reference) const;
    Result<void> tag(const Reference& source, const Reference& target);

    // Removes one name, and the blobs that no other name needs. kNotFound when there is none.
    Result<Removed> remove(const Reference& reference);
    // Removes every name of the image with this id (config digest).
    Result<Removed> remove_image(const Digest& config_digest);
    // Frees blobs that no name needs and interrupted downloads: all with `partials`, else those that nobody
    // has touched for a week. Postponed while in use.
    Result<Removed> collect_garbage(bool partials = false);

    Result<StoreUsage> usage() const;
    // The bytes of `image` that no other image of the store shares.
    Result<uint64_t> unique_size(const Image& image) const;

    // Take one before reading blobs of an image that another process might remove.
    Result<StoreLease> hold() const;

    std::string blob_path(const Digest& digest) const;
    bool has_blob(const Descriptor& descriptor) const;
    // kNotFound when it is missing, kImage when its size is wrong.
    Result<base::Fd> open_blob(const Descriptor& descriptor) const;
    // A small blob (manifest, configuration), at most `limit` bytes, its digest checked again.
    Result<std::string> read_blob(const Descriptor& descriptor, size_t limit) const;
    // Never waits. The caller holds a lease.
    Result<BlobStart> begin_blob(const Descriptor& descriptor);
    // Bytes that whoever writes this blob has so far; 0 when unknown.
    uint64_t partial_size(const Digest& digest) const;
    // Stores a small blob that is in memory. kImage when it does not match.
    Result<void> put_blob(const Descriptor& descriptor, std::string_view content);
    // A folder on the store's file system for adopt_file(), removed with the object.
    Result<base::TempDir> make_staging() const;
    // Moves a file whose content has the digest `actual` into place. kImage when that is not what
    // `descriptor` says.
    Result<void> adopt_file(const Descriptor& descriptor, const std::string& path, const Digest& actual);

    // To be called after a lease was given back: makes up for a postponed collection, if there is one.
    Result<void> collect_if_wanted();

  private:
    explicit Store(std::string root) : root_(std::move(root)) {}
    Result<Index> read_index() const;
    Result<Image> load_image(const Descriptor& entry, int depth = 0) const;
    Result<StoredImage> load_entry(const Descriptor& entry, const Reference& reference) const;
    Result<std::vector<Reference>> untag(
        const std::function<bool(const Reference&, const Descriptor&)>& chosen);
    Result<void> mark(const Descriptor& entry, std::set<Digest>& reached, int depth = 0) const;

    std::string root_;
};

}  // namespace boxlite::image
