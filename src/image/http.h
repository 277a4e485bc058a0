// HTTP exchanges over libcurl: proxies from the environment, redirects that never carry credentials to
// another origin, time-outs instead of hanging.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace boxlite::image {

struct HttpResponse {
    int status = 0;
    std::map<std::string, std::string> headers;  // names in lower case; repeated ones joined with ", "
    std::string body;                            // unless it went to the sink
    std::string url;                             // after redirects
    std::chrono::seconds retry_after{0};

    std::string header(const std::string& lower_case_name) const;
};

struct HttpRequest {
    enum class Method { kGet, kHead, kPost };
    Method method = Method::kGet;
    std::string url;
    std::vector<std::string> headers;  // "Name: value"
    std::string authorization;  // of the Authorization header; dropped when a redirect changes the origin
    std::string form;           // body of a POST, application/x-www-form-urlencoded
    bool skip_verify = false;
    std::string ca_file;
    std::chrono::milliseconds connect_timeout{15'000};
    std::chrono::milliseconds stall_timeout{30'000};
    size_t max_body = size_t{4} << 20;  // of `body`; longer ones are an error
    // With a sink, the body of a 2xx answer goes there piece by piece after `begin` has seen status and
    // headers. An error from either ends the exchange.
    std::function<Result<void>(const HttpResponse&)> begin;
    std::function<Result<void>(base::ByteView)> sink;
    std::stop_token stop;
};

// Any answer, also 404, is a response without a fault.
struct HttpOutcome {
    HttpResponse response;
    std::optional<Error> fault;
    bool transient = false;  // the fault or the status may be gone when asked again
};

// Keeps connections open between exchanges. Thread safe: each exchange in progress has its own connection.
class HttpClient {
  public:
    HttpClient();
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    HttpOutcome perform(const HttpRequest& request);

  private:
    struct Handle;
    std::unique_ptr<Handle> take_handle();
    void give_back(std::unique_ptr<Handle> handle);
    HttpOutcome exchange(Handle& handle, const HttpRequest& request, const std::string& url, bool authorized);

    std::mutex mutex_;
    std::vector<std::unique_ptr<Handle>> idle_;
};

// Origin of an http or https URL, as "https://host:443"; "" for anything else.
std::string origin_of(const std::string& url);

// Percent-encodes for a query or a form.
std::string url_encode(std::string_view text);

}  // namespace boxlite::image
