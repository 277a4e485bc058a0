// An HTTP server on loopback that does as a test says, faults included.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "image/test_images.h"

namespace boxlite::image::testing {

struct Request {
    std::string method;
    std::string target;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
};

struct Reply {
    int status = 200;
    std::string body = {};
    std::vector<std::pair<std::string, std::string>> headers = {};
    std::optional<size_t> cut_after = {};  // bytes of the body, then the connection ends
    bool stall = false;                    // no more after `cut_after` bytes, but the connection stays
};

class TestServer {
  public:
    using Handler = std::function<Reply(const Request&)>;  // called from several threads, one at a time
    explicit TestServer(Handler handler);
    ~TestServer();

    std::string host() const;  // "127.0.0.1:port"
    std::vector<Request> requests();
    size_t count(std::string_view method, std::string_view part_of_target);

  private:
    void accept_loop();
    void serve(base::Fd connection);

    Handler handler_;
    base::Fd listener_;
    base::Fd stop_;  // eventfd: readable once the server ends
    uint16_t port_ = 0;
    std::mutex mutex_;
    std::vector<Request> requests_;
    std::vector<std::jthread> connections_;
    std::jthread acceptor_;
};

// A connection-level proxy in front of 127.0.0.1:`port`. `budget(n)` says after how many bytes from the
// server the n-th connection is cut; nullopt never.
class CuttingProxy {
  public:
    CuttingProxy(uint16_t port, std::function<std::optional<size_t>(int)> budget);
    ~CuttingProxy();
    std::string host() const;

  private:
    void relay(base::Fd client, std::optional<size_t> budget);

    uint16_t target_;
    std::function<std::optional<size_t>(int)> budget_;
    base::Fd listener_;
    base::Fd stop_;
    uint16_t port_ = 0;
    std::vector<std::jthread> relays_;
    std::jthread acceptor_;
};

// What a registry answers for this request when it holds `image` as `repository`:`tag`; 404 for all else.
// Serves ranges.
Reply serve_image(const Request& request, const TestImage& image, std::string_view repository,
                  std::string_view tag);

}  // namespace boxlite::image::testing
