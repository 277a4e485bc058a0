// The Files service: the container's files, through descriptors that never leave its root.
#pragma once

#include <map>

#include "agent/messages.h"
#include "agent/root.h"
#include "agent/router.h"
#include "base/event_loop.h"

namespace boxlite::agent {

class Files {
  public:
    explicit Files(base::EventLoop& loop) : loop_(loop) {}
    Files(const Files&) = delete;
    Files& operator=(const Files&) = delete;

    void add_routes(Router& router);

    // Until then, every call is kInvalidState. `root` must outlive its use here, which ends with close().
    void use(const Root& root) { root_ = &root; }
    // Closes all handles: their users are gone.
    void close_handles() { handles_.clear(); }
    // Does that; calls are kStopped from now on.
    void close();

  private:
    struct Handle {
        base::Fd fd;
        bool writable = false;
    };

    Result<const Root*> root() const;
    Result<v1::FileInfo> stat(const v1::StatRequest& request) const;
    Result<v1::ListResponse> list(const v1::ListRequest& request) const;
    Result<v1::OpenResponse> open(const v1::OpenRequest& request);
    Result<base::Fd> open_existing(const v1::OpenRequest& request, const Root& root) const;
    Result<base::Fd> open_to_write(const v1::OpenRequest& request, const Root& root) const;
    void read_at(const v1::ReadAtRequest& request, rpc::Responder responder) const;
    Result<void> write_at(const v1::WriteAtRequest& request) const;
    Result<void> close_file(const v1::CloseFileRequest& request);
    Result<void> make(const v1::MakeRequest& request) const;
    void remove(const v1::RemoveRequest& request, rpc::Responder responder);
    Result<const Handle*> find(uint64_t handle) const;

    base::EventLoop& loop_;
    const Root* root_ = nullptr;
    bool closed_ = false;
    std::map<uint64_t, Handle> handles_;
    uint64_t next_handle_ = 1;
};

}  // namespace boxlite::agent
