// One connection for the files of a box: handles that are open in the box belong to it. Not thread safe.
#pragma once

#include <string>

#include "runtime/box_impl.h"

namespace boxlite::runtime {

inline constexpr size_t kCopyChunk = size_t{1} << 20;
// Of directories in directories. The agent's answers are not to be trusted to end.
inline constexpr int kMaxCopyDepth = 512;

class CopySession {
  public:
    // Starts a stopped box that is no job.
    static Result<CopySession> open(const BoxImpl& box);
    // Stops the box if open() started it.
    Result<void> finish();

    Result<v1::FileInfo> stat(const std::string& path, bool follow);
    // At most 1024 entries behind `after`, in order of their names.
    Result<v1::ListResponse> list(const std::string& path, const std::string& after);
    Result<v1::OpenResponse> open_read(const std::string& path, bool follow);
    Result<v1::OpenResponse> open_write(const std::string& path, uint32_t mode, bool exclusive);
    // Empty at the end.
    Result<std::string> read_at(uint64_t handle, uint64_t offset, size_t max_bytes);
    Result<void> write_at(uint64_t handle, uint64_t offset, std::string data);
    Result<void> close(uint64_t handle, const v1::FileInfo* attributes);
    Result<void> make(const std::string& path, const v1::FileInfo& attributes, bool replace);
    Result<void> remove(const std::string& path);

  private:
    CopySession(const BoxImpl& box, rpc::Client client, bool started)
        : box_(&box), client_(std::move(client)), started_(started) {}
    const BoxImpl* box_;
    rpc::Client client_;
    bool started_;
};

// "dir/name", with no doubled slash.
std::string join_path(const std::string& folder, const std::string& name);
// The last component, without trailing slashes; "" for "/", "." and "..".
std::string base_name(const std::string& path);
// True for "x/." and ".": the content is meant, not the folder.
bool names_content(const std::string& path);

}  // namespace boxlite::runtime
