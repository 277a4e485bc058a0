#include "image/http.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "image/curl_library.h"
#include "image/reference.h"

namespace boxlite::image {

namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kMaxHeaderBytes = size_t{256} << 10;
constexpr size_t kMaxIdleHandles = 16;

// Only where curl_library() is known to be there.
const CurlLibrary& library() {
    return *curl_library();
}

struct FreeSlist {
    void operator()(curl_slist* list) const { library().slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeSlist>;

struct FreeUrl {
    void operator()(CURLU* url) const { library().url_cleanup(url); }
};

// OpenSSL writes to its sockets without MSG_NOSIGNAL; a peer that went away must not end the program.
class SigpipeBlocked {
  public:
    SigpipeBlocked() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~SigpipeBlocked() {
        const timespec now{};
        if (!was_pending_)
            while (sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {
            }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }

  private:
    sigset_t pipe_, before_;
    bool was_pending_;
};

// The state of one exchange, as its callbacks see it.
struct Exchange {
    CURL* curl;
    const HttpRequest& request;
    HttpResponse response;
    std::optional<Error> error;  // from begin, sink or a limit
    size_t header_bytes = 0;
    bool begun = false;
    curl_off_t moved = 0;  // bytes, when last looked at
    std::chrono::steady_clock::time_point moved_at = std::chrono::steady_clock::now();
    bool stalled = false;

    bool wants_sink() const { return request.sink && response.status >= 200 && response.status < 300; }
    bool begin() {
        if (begun || !request.begin) return true;
        begun = true;
        auto result = request.begin(response);
        if (!result.ok()) error = std::move(result).error();
        return !error;
    }
};

std::string trimmed(std::string_view text) {
    const char* blanks = " \t\r\n";
    const size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

size_t on_header(char* data, size_t size, size_t count, void* context) {
    auto& exchange = *static_cast<Exchange*>(context);
    const std::string_view line(data, size * count);
    exchange.header_bytes += line.size();
    if (exchange.header_bytes > kMaxHeaderBytes) {
        exchange.error = base::make_error(ErrorCode::kNetwork, "the answer's headers are too long");
        return 0;
    }
    if (line.starts_with("HTTP/"))
        exchange.response.headers.clear();  // after "100 Continue" or a proxy's answer
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return line.size();
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    std::string& value = exchange.response.headers[name];
    if (!value.empty()) value += ", ";
    value += trimmed(line.substr(colon + 1));
    return line.size();
}

size_t on_body(char* data, size_t size, size_t count, void* context) {
    auto& exchange = *static_cast<Exchange*>(context);
    const std::string_view piece(data, size * count);
    long status = 0;
    library().easy_getinfo(exchange.curl, CURLINFO_RESPONSE_CODE, &status);
    exchange.response.status = static_cast<int>(status);
    if (exchange.wants_sink()) {
        if (!exchange.begin()) return 0;
        auto result = exchange.request.sink(base::as_bytes(piece));
        if (!result.ok()) exchange.error = std::move(result).error();
        return exchange.error ? 0 : piece.size();
    }
    if (exchange.response.body.size() + piece.size() > exchange.request.max_body) {
        exchange.error = base::make_error(ErrorCode::kNetwork, "the answer is longer than {} bytes",
                                          exchange.request.max_body);
        return 0;
    }
    exchange.response.body += piece;
    return piece.size();
}

// Called by curl at least once a second, and more often while data moves.
int on_progress(void* context, curl_off_t, curl_off_t received, curl_off_t, curl_off_t sent) {
    auto& exchange = *static_cast<Exchange*>(context);
    const auto now = std::chrono::steady_clock::now();
    if (received + sent != exchange.moved) {
        exchange.moved = received + sent;
        exchange.moved_at = now;
    }
    exchange.stalled = now - exchange.moved_at > exchange.request.stall_timeout;
    return exchange.stalled || exchange.request.stop.stop_requested() ? 1 : 0;
}

// Trusts the given file besides what curl already trusts.
CURLcode add_trust(CURL*, void* context, void* ca_file) {
    auto* ssl = static_cast<SSL_CTX*>(context);
    const int loaded = library().ssl_load_verify_locations(ssl, static_cast<const char*>(ca_file), nullptr);
    return loaded == 1 ? CURLE_OK : CURLE_SSL_CACERT_BADFILE;
}

bool is_transient(CURLcode code) {
    switch (code) {
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_CONNECT:
        case CURLE_PARTIAL_FILE:
        case CURLE_OPERATION_TIMEDOUT:
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
            return true;
        default:
            return false;
    }
}

bool is_transient_status(int status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::string url_part(const std::string& url, CURLUPart part, unsigned int flags) {
    if (!curl_library().ok()) return {};
    const std::unique_ptr<CURLU, FreeUrl> parsed(library().url());
    char* text = nullptr;
    if (!parsed || library().url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
        library().url_get(parsed.get(), part, &text, flags) != CURLUE_OK)
        return {};
    std::string result(text);
    library().free(text);
    return result;
}

const char* env(const char* name) {
    const char* value = std::getenv(name);
    return value && *value ? value : nullptr;
}

// curl reads the lower-case variables, and the upper-case ones but for HTTP_PROXY, which a web server's
// program must not trust. Other container tools take it, so do we outside of a CGI program. A loopback
// address is never asked through a proxy.
void set_proxy(CURL* curl, const std::string& url) {
    if (is_loopback_registry(url_part(url, CURLUPART_HOST, 0))) {
        library().easy_setopt(curl, CURLOPT_PROXY, "");
        return;
    }
    const char* proxy = env("HTTP_PROXY");
    if (proxy && url.starts_with("http://") && !env("http_proxy") && !env("REQUEST_METHOD"))
        library().easy_setopt(curl, CURLOPT_PROXY, proxy);
}

void set_tls(CURL* curl, const HttpRequest& request) {
    if (request.skip_verify) {
        library().easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        library().easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (const char* bundle = env("SSL_CERT_FILE")) library().easy_setopt(curl, CURLOPT_CAINFO, bundle);
    if (!request.ca_file.empty()) {
        library().easy_setopt(curl, CURLOPT_SSL_CTX_FUNCTION, add_trust);
        library().easy_setopt(curl, CURLOPT_SSL_CTX_DATA, const_cast<char*>(request.ca_file.c_str()));
    }
}

HeaderList make_headers(const HttpRequest& request, bool authorized) {
    HeaderList list;
    const auto add = [&list](const std::string& line) {
        if (curl_slist* longer = library().slist_append(list.get(), line.c_str())) {
            (void)list.release();
            list.reset(longer);
        }
    };
    for (const std::string& header : request.headers) add(header);
    if (authorized && !request.authorization.empty()) add("Authorization: " + request.authorization);
    return list;
}

void set_method(CURL* curl, const HttpRequest& request) {
    if (request.method == HttpRequest::Method::kHead) library().easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (request.method == HttpRequest::Method::kPost) {
        library().easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(request.form.size()));
        library().easy_setopt(curl, CURLOPT_POSTFIELDS, request.form.c_str());
    }
}

void set_limits(CURL* curl, const HttpRequest& request) {
    library().easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                          static_cast<long>(request.connect_timeout.count()));
    library().easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    library().easy_setopt(curl, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    library().easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    library().easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L * 1024);
}

}  // namespace

struct HttpClient::Handle {
    CURL* curl = library().easy_init();
    Handle() = default;
    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;
    ~Handle() {
        const SigpipeBlocked blocked;  // closing a TLS connection writes
        library().easy_cleanup(curl);
    }
};

HttpClient::HttpClient() = default;

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Handle> HttpClient::take_handle() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Handle>();
    auto handle = std::move(idle_.back());
    idle_.pop_back();
    return handle;
}

void HttpClient::give_back(std::unique_ptr<Handle> handle) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdleHandles) idle_.push_back(std::move(handle));
}

HttpOutcome HttpClient::exchange(Handle& handle, const HttpRequest& request, const std::string& url,
                                 bool authorized) {
    CURL* curl = handle.curl;
    library().easy_reset(curl);
    Exchange exchange{.curl = curl, .request = request};
    char reason[CURL_ERROR_SIZE] = "";
    const HeaderList headers = make_headers(request, authorized);
    library().easy_setopt(curl, CURLOPT_URL, url.c_str());
    library().easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
    library().easy_setopt(curl, CURLOPT_USERAGENT, "boxlite");
    library().easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
    library().easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    library().easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
    library().easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    library().easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
    library().easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    library().easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    library().easy_setopt(curl, CURLOPT_XFERINFODATA, &exchange);
    set_method(curl, request);
    set_limits(curl, request);
    set_proxy(curl, url);
    set_tls(curl, request);

    const CURLcode code = library().easy_perform(curl);
    HttpOutcome outcome;
    long status = 0;
    curl_off_t retry_after = 0;
    library().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    library().easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
    exchange.response.status = static_cast<int>(status);
    exchange.response.url = url;
    exchange.response.retry_after = std::chrono::seconds(std::max<curl_off_t>(0, retry_after));
    if (code == CURLE_OK && exchange.wants_sink()) (void)exchange.begin();  // an answer without a body
    if (exchange.error) {
        outcome.fault = std::move(exchange.error);
    } else if (request.stop.stop_requested()) {
        outcome.fault = base::make_error(ErrorCode::kStopped, "stopped");
    } else if (exchange.stalled) {
        outcome.fault = base::make_error(ErrorCode::kNetwork, "{} sent nothing for {} ms", origin_of(url),
                                         request.stall_timeout.count());
        outcome.transient = true;
    } else if (code != CURLE_OK) {
        const bool plain = code == CURLE_SSL_CONNECT_ERROR &&
                           std::string_view(reason).find("wrong version") != std::string_view::npos;
        outcome.fault =
            base::make_error(ErrorCode::kNetwork, "cannot reach {}: {}{}", origin_of(url),
                             *reason ? reason : library().easy_strerror(code),
                             plain ? "; it may speak plain http: configure its transport as http" : "");
        outcome.transient = is_transient(code) && !plain;
    } else {
        outcome.transient = is_transient_status(exchange.response.status);
    }
    outcome.response = std::move(exchange.response);
    return outcome;
}

HttpOutcome HttpClient::perform(const HttpRequest& request) {
    if (!curl_library().ok()) return {.fault = curl_library().error()};
    const SigpipeBlocked blocked;
    auto handle = take_handle();
    std::string url = request.url;
    bool authorized = true;
    for (int redirects = 0;; ++redirects) {
        HttpOutcome outcome = exchange(*handle, request, url, authorized);
        const int status = outcome.response.status;
        char* target = nullptr;
        if (!outcome.fault && status >= 300 && status < 400 && request.method != HttpRequest::Method::kPost)
            library().easy_getinfo(handle->curl, CURLINFO_REDIRECT_URL, &target);
        if (!target) {
            give_back(std::move(handle));
            return outcome;
        }
        const std::string next(target);
        const std::string from = origin_of(url), to = origin_of(next);
        if (redirects == kMaxRedirects || to.empty() ||
            (from.starts_with("https:") && !to.starts_with("https:"))) {
            outcome.fault = base::make_error(
                ErrorCode::kNetwork, "{} redirects to '{}': {}", from, next,
                redirects == kMaxRedirects ? "too many redirects" : "only https may follow https");
            return outcome;
        }
        // Once off the origin that the credentials are for, they stay off.
        authorized = authorized && from == to;
        url = next;
    }
}

std::string HttpResponse::header(const std::string& name) const {
    const auto it = headers.find(name);
    return it == headers.end() ? "" : it->second;
}

std::string origin_of(const std::string& url) {
    const std::string scheme = url_part(url, CURLUPART_SCHEME, 0);
    const std::string host = url_part(url, CURLUPART_HOST, 0);
    if ((scheme != "https" && scheme != "http") || host.empty()) return {};
    std::string lower = host;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return fmt::format("{}://{}:{}", scheme, lower, url_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string url_encode(std::string_view text) {
    std::string encoded;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '-' || c == '.' || c == '_' || c == '~';
        if (plain)
            encoded += c;
        else
            fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(c));
    }
    return encoded;
}

}  // namespace boxlite::image
