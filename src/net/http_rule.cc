#include "net/http_rule.h"

#include <algorithm>

#include "net/http_text.h"

namespace boxlite::net {

namespace {

constexpr std::string_view kTls = "https://", kPlain = "http://";

Error bad(std::string_view why) {
    return base::make_error(ErrorCode::kInvalidArgument, "{}", why);
}

bool glob(std::string_view pattern, std::string_view text) {
    size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            from = t;
        } else if (p < pattern.size() && pattern[p] == text[t]) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

Result<std::vector<std::string>> parse_methods(std::string_view text) {
    std::vector<std::string> methods;
    if (text == "*") return methods;
    if (text.ends_with(',')) return bad("a comma has no HTTP method behind it");
    while (!text.empty()) {
        const size_t end = std::min(text.find(','), text.size());
        const std::string_view method = text.substr(0, end);
        const bool good = !method.empty() && std::all_of(method.begin(), method.end(), [](char c) {
            return c == '-' || (c >= 'A' && c <= 'Z');
        });
        if (!good) return bad(fmt::format("'{}' is no HTTP method", method));
        methods.emplace_back(method);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return methods;
}

bool is_ambiguous(std::string_view path) {
    for (size_t at = 0; at < path.size();) {
        const size_t end = std::min(path.find('/', at + 1), path.size());
        std::string_view step = path.substr(at + 1, end - at - 1);
        // Parameters of a step, which some servers take off first.
        step = step.substr(0, step.find(';'));
        if (step == "." || step == "..") return true;
        at = end;
    }
    return path.find_first_of(std::string_view("\\\0", 2)) != std::string_view::npos;
}

}  // namespace

bool HttpRule::matches(bool over_tls, std::string_view method, std::string_view wanted) const {
    if (over_tls != tls) return false;
    if (!methods.empty() && std::find(methods.begin(), methods.end(), method) == methods.end()) return false;
    return glob(path, wanted);
}

bool is_http_rule(std::string_view text) {
    return text.find(' ') != std::string_view::npos;
}

Result<HttpRuleText> parse_http_rule(std::string_view text) {
    HttpRuleText result;
    const size_t blank = text.find(' ');
    if (blank == 0) return bad("an HTTP method or '*' is needed before the URL");
    result.rule.methods = TRY(parse_methods(text.substr(0, blank)));
    std::string_view url = text.substr(blank + 1);
    result.rule.tls = url.starts_with(kTls);
    if (!result.rule.tls && !url.starts_with(kPlain))
        return bad("behind a method, a URL with http:// or https:// is needed");
    url.remove_prefix(result.rule.tls ? kTls.size() : kPlain.size());
    const size_t slash = std::min(url.find('/'), url.size());
    result.authority = url.substr(0, slash);
    if (const std::string_view path = url.substr(slash); !path.empty()) {
        const auto plain = http_path(path);
        if (path.find_first_of("?# ") != std::string_view::npos || !plain)
            return bad(fmt::format("'{}' is no path: queries, blanks and '..' have no place in it", path));
        result.rule.path = *plain;
    }
    const bool bracket = result.authority.starts_with('[');
    const size_t colon = result.authority.rfind(':');
    const bool has_port = colon != std::string::npos && (!bracket || colon > result.authority.find(']'));
    if (result.authority.find('/') != std::string::npos || result.authority.empty())
        return bad("the URL names no host");
    if (!has_port) result.authority += result.rule.tls ? ":443" : ":80";
    return result;
}

std::optional<std::string> http_path(std::string_view target) {
    if (const size_t scheme = target.find("://");
        scheme != std::string_view::npos && !target.starts_with('/')) {
        target.remove_prefix(scheme + 3);
        const size_t slash = target.find_first_of("/?#");
        target = slash == std::string_view::npos ? std::string_view() : target.substr(slash);
    }
    target = target.substr(0, target.find_first_of("?#"));
    if (target.empty()) return "/";
    if (target == "*") return "*";  // OPTIONS of the server as a whole
    const auto plain = [](char c) { return c > ' ' && c < 0x7f; };
    if (target.front() != '/' || !std::all_of(target.begin(), target.end(), plain)) return std::nullopt;
    std::string path;
    for (size_t i = 0; i < target.size(); ++i) {
        if (target[i] != '%') {
            path += target[i];
            continue;
        }
        const auto byte = from_hex(target.substr(i + 1, 2));
        if (!byte || *byte == '/' || *byte == '%') return std::nullopt;
        path += static_cast<char>(*byte);
        i += 2;
    }
    if (is_ambiguous(path)) return std::nullopt;
    return path;
}

}  // namespace boxlite::net
