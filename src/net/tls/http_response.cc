#include "net/tls/http_response.h"

#include <charconv>

namespace boxlite::net::tls {

namespace {

const char* set_status(HttpResponse& response) {
    const std::string_view line = response.head.start;
    constexpr size_t kCode = 9, kCodeEnd = 12;  // "HTTP/1.1 200 OK"
    if (!line.starts_with("HTTP/1.") || line.size() < kCodeEnd || line[kCode - 1] != ' ' ||
        (line.size() > kCodeEnd && line[kCodeEnd] != ' '))
        return "its answer is not HTTP";
    const auto [end, error] = std::from_chars(line.data() + kCode, line.data() + kCodeEnd, response.status);
    return error == std::errc() && end == line.data() + kCodeEnd && response.status >= 100
               ? nullptr
               : "its answer has a malformed status";
}

const char* set_length(std::string_view text, HttpResponse& response) {
    uint64_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error != std::errc() || end != text.data() + text.size()) return "its answer has a malformed length";
    if (response.length.value_or(length) != length) return "its answer has two lengths";
    response.length = length;
    return nullptr;
}

const char* set_framing(HttpResponse& response) {
    const char* problem = nullptr;
    for (const Field& field : response.head.fields) {
        if (equal_fold(field.name, "content-length")) {
            problem = set_length(field.value, response);
        } else if (equal_fold(field.name, "transfer-encoding")) {
            if (response.chunked || !equal_fold(field.value, "chunked"))
                problem = "its answer has an unknown coding";
            response.chunked = true;
        } else if (equal_fold(field.name, "content-encoding")) {
            if (!response.coding.empty()) problem = "its answer's content is coded twice";
            if (!equal_fold(field.value, "identity")) response.coding = field.value;
        }
        if (problem) return problem;
    }
    return response.chunked && response.length ? "its answer has a length and a coding" : nullptr;
}

}  // namespace

std::optional<HttpResponse> read_http_response(std::string_view bytes) {
    HttpResponse response;
    Lines lines(bytes);
    for (bool first = true;; first = false) {
        const auto line = lines.next();
        if (!line) return std::nullopt;
        if (line->empty() && !first) break;
    }
    response.size = lines.at();
    const auto head = split_head(bytes.substr(0, response.size));
    const char* problem = "its answer is malformed";
    if (head) {
        response.head = *head;
        problem = set_status(response);
        if (!problem) problem = set_framing(response);
    }
    if (problem) response.problem = problem;
    return response;
}

}  // namespace boxlite::net::tls
