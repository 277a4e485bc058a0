// The head of an HTTP/1 response (RFC 9112), read strictly: what two readers could take for different ones is
// an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "net/http_text.h"

namespace boxlite::net::tls {

struct HttpResponse {
    size_t size = 0;      // with its empty line
    std::string problem;  // set: the rest says nothing
    HeadText head;        // in the bytes that were read
    int status = 0;
    std::optional<uint64_t> length;
    bool chunked = false;
    std::string_view coding;  // of the content, "" for none
};
// nullopt until all of it is there.
std::optional<HttpResponse> read_http_response(std::string_view bytes);

}  // namespace boxlite::net::tls
