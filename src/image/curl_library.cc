#include "image/curl_library.h"

#include "base/shared_library.h"

namespace boxlite::image {

namespace {

Result<CurlLibrary> load() {
    const auto library = TRY(base::SharedLibrary::load("libcurl.so.4"));
    CurlLibrary curl{};
    TRY(library.bind("curl_easy_init", curl.easy_init));
    TRY(library.bind("curl_easy_cleanup", curl.easy_cleanup));
    TRY(library.bind("curl_easy_reset", curl.easy_reset));
    TRY(library.bind("curl_easy_setopt", curl.easy_setopt));
    TRY(library.bind("curl_easy_getinfo", curl.easy_getinfo));
    TRY(library.bind("curl_easy_perform", curl.easy_perform));
    TRY(library.bind("curl_easy_strerror", curl.easy_strerror));
    TRY(library.bind("curl_slist_append", curl.slist_append));
    TRY(library.bind("curl_slist_free_all", curl.slist_free_all));
    TRY(library.bind("curl_url", curl.url));
    TRY(library.bind("curl_url_cleanup", curl.url_cleanup));
    TRY(library.bind("curl_url_get", curl.url_get));
    TRY(library.bind("curl_url_set", curl.url_set));
    TRY(library.bind("curl_free", curl.free));
    const auto tls = TRY(base::SharedLibrary::load("libssl.so.3"));
    TRY(tls.bind("SSL_CTX_load_verify_locations", curl.ssl_load_verify_locations));
    decltype(::curl_global_init)* global_init = nullptr;
    TRY(library.bind("curl_global_init", global_init));
    if (const CURLcode code = global_init(CURL_GLOBAL_DEFAULT); code != CURLE_OK)
        return base::make_error(ErrorCode::kInternal, "libcurl cannot be used: {}", curl.easy_strerror(code));
    return curl;
}

}  // namespace

const Result<CurlLibrary>& curl_library() {
    static const Result<CurlLibrary> library = load();
    return library;
}

}  // namespace boxlite::image
