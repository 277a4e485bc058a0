// The host's name servers, as /etc/resolv.conf names them: each query goes to one after the other until one
// answers. An answer is passed on as it came.
// Thread safety: the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "net/resolver_config.h"

namespace boxlite::net {

class HostResolver {
  public:
    static constexpr size_t kMaxQueries = 512;  // under way
    // The answer as bytes; empty when no server answered.
    using Done = std::function<void(base::ByteView answer)>;

    HostResolver(base::EventLoop& loop, ResolverConfig config);
    ~HostResolver();
    HostResolver(const HostResolver&) = delete;
    HostResolver& operator=(const HostResolver&) = delete;

    // `query` is a well-formed message; its id is replaced on the way and put back in the answer. `stream`:
    // over TCP. `done` is called from the loop, or at once when there are too many queries.
    void ask(base::ByteView query, bool stream, Done done);

  private:
    struct Query;
    void attempt(const std::shared_ptr<Query>& query);
    void next(const std::shared_ptr<Query>& query);
    void ready(const std::shared_ptr<Query>& query, uint32_t events);
    bool take(const std::shared_ptr<Query>& query, base::ByteView answer);
    void close(Query& query);

    base::EventLoop& loop_;
    const ResolverConfig config_;
    std::map<Query*, std::shared_ptr<Query>> queries_;
};

}  // namespace boxlite::net
