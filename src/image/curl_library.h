// libcurl, loaded at the first exchange: it brings some thirty libraries with it, and loading them takes
// longer than a program in a box.
#pragma once

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "base/result.h"

namespace boxlite::image {

struct CurlLibrary {
    decltype(::curl_easy_init)* easy_init;
    decltype(::curl_easy_cleanup)* easy_cleanup;
    decltype(::curl_easy_reset)* easy_reset;
    decltype(::curl_easy_setopt)* easy_setopt;
    decltype(::curl_easy_getinfo)* easy_getinfo;
    decltype(::curl_easy_perform)* easy_perform;
    decltype(::curl_easy_strerror)* easy_strerror;
    decltype(::curl_slist_append)* slist_append;
    decltype(::curl_slist_free_all)* slist_free_all;
    decltype(::curl_url)* url;
    decltype(::curl_url_cleanup)* url_cleanup;
    decltype(::curl_url_get)* url_get;
    decltype(::curl_url_set)* url_set;
    decltype(::curl_free)* free;
    // Of the TLS library that libcurl uses.
    decltype(::SSL_CTX_load_verify_locations)* ssl_load_verify_locations;
};

// Loaded and initialised once. kUnsupported: the host does not have it.
const Result<CurlLibrary>& curl_library();

}  // namespace boxlite::image
