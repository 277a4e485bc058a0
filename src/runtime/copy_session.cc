#include "runtime/copy_session.h"

namespace boxlite::runtime {

Result<CopySession> CopySession::open(const BoxImpl& box) {
    bool started = false;
    if (!connect_client(box.folder).ok()) {
        if (box.config.is_job()) TRY(running(box));
        started = TRY(start_box(box, {}));
    }
    return CopySession(box, TRY(connect_client(box.folder)), started);
}

Result<void> CopySession::finish() {
    if (!started_) return {};
    started_ = false;
    return stop_box(*box_, {});
}

Result<v1::FileInfo> CopySession::stat(const std::string& path, bool follow) {
    v1::StatRequest request;
    request.set_path(path);
    request.set_follow(follow);
    return client_.call<v1::FileInfo>(kFilesService, "Stat", request);
}

Result<v1::ListResponse> CopySession::list(const std::string& path, const std::string& after) {
    v1::ListRequest request;
    request.set_path(path);
    request.set_after(after);
    request.set_limit(1024);
    return client_.call<v1::ListResponse>(kFilesService, "List", request);
}

Result<v1::OpenResponse> CopySession::open_read(const std::string& path, bool follow) {
    v1::OpenRequest request;
    request.set_path(path);
    request.set_follow(follow);
    return client_.call<v1::OpenResponse>(kFilesService, "Open", request);
}

Result<v1::OpenResponse> CopySession::open_write(const std::string& path, uint32_t mode, bool exclusive) {
    v1::OpenRequest request;
    request.set_path(path);
    request.set_write(true);
    request.set_mode(mode);
    request.set_exclusive(exclusive);
    request.set_make_parents(true);
    return client_.call<v1::OpenResponse>(kFilesService, "Open", request);
}

Result<std::string> CopySession::read_at(uint64_t handle, uint64_t offset, size_t max_bytes) {
    v1::ReadAtRequest request;
    request.set_handle(handle);
    request.set_offset(offset);
    request.set_max_bytes(static_cast<uint32_t>(max_bytes));
    auto response = TRY(client_.call<v1::ReadAtResponse>(kFilesService, "ReadAt", request));
    return std::move(*response.mutable_data());
}

Result<void> CopySession::write_at(uint64_t handle, uint64_t offset, std::string data) {
    v1::WriteAtRequest request;
    request.set_handle(handle);
    request.set_offset(offset);
    request.set_data(std::move(data));
    TRY(client_.call<v1::Empty>(kFilesService, "WriteAt", request));
    return {};
}

Result<void> CopySession::close(uint64_t handle, const v1::FileInfo* attributes) {
    v1::CloseFileRequest request;
    request.set_handle(handle);
    if (attributes) *request.mutable_attributes() = *attributes;
    TRY(client_.call<v1::Empty>(kFilesService, "CloseFile", request));
    return {};
}

Result<void> CopySession::make(const std::string& path, const v1::FileInfo& attributes, bool replace) {
    v1::MakeRequest request;
    request.set_path(path);
    *request.mutable_attributes() = attributes;
    request.set_make_parents(true);
    request.set_replace(replace);
    TRY(client_.call<v1::Empty>(kFilesService, "Make", request));
    return {};
}

Result<void> CopySession::remove(const std::string& path) {
    v1::RemoveRequest request;
    request.set_path(path);
    TRY(client_.call<v1::Empty>(kFilesService, "Remove", request));
    return {};
}

std::string join_path(const std::string& folder, const std::string& name) {
    return folder + (folder.ends_with('/') ? "" : "/") + name;
}

std::string base_name(const std::string& path) {
    const size_t last = path.find_last_not_of('/');
    if (last == std::string::npos) return {};
    const size_t slash = path.rfind('/', last);
    const size_t first = slash == std::string::npos ? 0 : slash + 1;
    std::string name = path.substr(first, last + 1 - first);
    return name == "." || name == ".." ? std::string() : name;
}

bool names_content(const std::string& path) {
    return path == "." || path.ends_with("/.");
}

}  // namespace boxlite::runtime
