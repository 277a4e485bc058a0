#include "image/reference.h"

#include <algorithm>
#include <cctype>

namespace boxlite::image {

namespace {

constexpr size_t kMaxNameLength = 255;
constexpr size_t kMaxTagLength = 128;
constexpr std::string_view kDefaultRegistry = "docker.io";
constexpr std::string_view kOfficialPrefix = "library/";

bool is_lower_alnum(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_alnum(char c) {
    return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

template <typename Predicate>
bool all(std::string_view text, Predicate predicate) {
    return std::all_of(text.begin(), text.end(), predicate);
}

// Calls `check` on each part between `separator`s; false when one check is.
template <typename Check>
bool each_part(std::string_view text, char separator, Check check) {
    for (;;) {
        const size_t end = text.find(separator);
        if (!check(text.substr(0, end))) return false;
        if (end == std::string_view::npos) return true;
        text.remove_prefix(end + 1);
    }
}

// domain := (label ("." label)* | "[" IPv6 "]") [":" digits]
bool is_domain(std::string_view domain) {
    std::string_view host = domain;
    if (domain.starts_with('[')) {
        const size_t close = domain.find(']');
        if (close == std::string_view::npos) return false;
        const std::string_view address = domain.substr(1, close - 1);
        if (address.empty() ||
            !all(address, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) || c == ':'; }))
            return false;
        const std::string_view rest = domain.substr(close + 1);
        return rest.empty() || (rest.size() > 1 && rest[0] == ':' && all(rest.substr(1), is_digit));
    }
    if (const size_t colon = domain.find(':'); colon != std::string_view::npos) {
        const std::string_view port = domain.substr(colon + 1);
        if (port.empty() || !all(port, is_digit)) return false;
        host = domain.substr(0, colon);
    }
    return each_part(host, '.', [](std::string_view label) {
        return !label.empty() && all(label, [](char c) { return is_alnum(c) || c == '-'; }) &&
               label.front() != '-' && label.back() != '-';
    });
}

// component := [a-z0-9]+ (separator [a-z0-9]+)*, separator := "." | "_" | "__" | "-"+
bool is_path_component(std::string_view component) {
    size_t i = 0;
    const auto skip_alnum = [&] {
        const size_t start = i;
        while (i < component.size() && is_lower_alnum(component[i])) ++i;
        return i > start;
    };
    if (!skip_alnum()) return false;
    while (i < component.size()) {
        const size_t start = i;
        const char c = component[i];
        while (i < component.size() && component[i] == c) ++i;
        const size_t run = i - start;
        const bool separator = (c == '.' && run == 1) || (c == '_' && run <= 2) || c == '-';
        if (!separator || !skip_alnum()) return false;
    }
    return true;
}

bool is_tag(std::string_view tag) {
    const auto word = [](char c) { return is_alnum(c) || c == '_'; };
    return !tag.empty() && tag.size() <= kMaxTagLength && word(tag[0]) &&
           all(tag, [&](char c) { return word(c) || c == '.' || c == '-'; });
}

struct Parts {
    std::string_view domain;  // empty when the text names no registry
    std::string_view path;
    std::string_view tag;
    std::string_view digest;
};

bool has_upper(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// The first component is a registry when it can be nothing else: it has a dot, a port or capitals, or it
// is localhost.
Parts split(std::string_view text) {
    Parts parts;
    if (const size_t at = text.find('@'); at != std::string_view::npos) {
        parts.digest = text.substr(at + 1);
        text = text.substr(0, at);
    }
    if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
        const std::string_view first = text.substr(0, slash);
        if (first.find_first_of(".:") != std::string_view::npos || first == "localhost" || has_upper(first)) {
            parts.domain = first;
            text.remove_prefix(slash + 1);
        }
    }
    if (const size_t colon = text.rfind(':'); colon != std::string_view::npos) {
        parts.tag = text.substr(colon + 1);
        text = text.substr(0, colon);
        if (parts.tag.empty()) parts.tag = ":";  // an empty tag is not an absent one
    }
    parts.path = text;
    return parts;
}

Error invalid(std::string_view text, std::string_view reason) {
    return base::make_error(ErrorCode::kInvalidArgument, "'{}' is not an image reference: {}",
                            text.substr(0, 300), reason);
}

Result<Reference> build(std::string_view text, const Parts& parts, std::string_view default_registry) {
    Reference reference;
    reference.registry = parts.domain.empty() ? default_registry : parts.domain;
    if (reference.registry == "index.docker.io") reference.registry = kDefaultRegistry;
    if (!is_domain(reference.registry))
        return invalid(text, fmt::format("'{}' is not a registry's host[:port]", reference.registry));

    if (parts.path.empty()) return invalid(text, "it names no repository");
    if (has_upper(parts.path)) return invalid(text, "the repository must be lower case");
    if (!each_part(parts.path, '/', is_path_component))
        return invalid(text, "the repository may hold a-z, 0-9 and single '.', '_', '__', '-' between them");
    reference.repository = parts.path;
    if (reference.registry == kDefaultRegistry && parts.path.find('/') == std::string_view::npos)
        reference.repository = fmt::format("{}{}", kOfficialPrefix, parts.path);
    if (reference.registry.size() + 1 + reference.repository.size() > kMaxNameLength)
        return invalid(text, "the name is longer than 255 characters");

    if (!parts.tag.empty()) {
        if (!is_tag(parts.tag))
            return invalid(
                text, "a tag is 1 to 128 of a-z, A-Z, 0-9, '_', '.', '-' and does not start with '.' or '-'");
        reference.tag = parts.tag;
    }
    return reference;
}

Result<Reference> parse_with_default(std::string_view text, std::string_view default_registry) {
    if (text.empty()) return invalid(text, "it is empty");
    if (text.size() == 64 && all(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }))
        return invalid(text, "64 hex digits are an image id, not a name");
    const Parts parts = split(text);
    Reference reference = TRY(build(text, parts, default_registry));
    if (text.find('@') != std::string_view::npos) {
        auto digest = Digest::parse(parts.digest);
        if (!digest.ok()) return invalid(text, digest.error().message);
        reference.digest = std::move(digest).value();
    }
    if (reference.tag.empty() && !reference.digest) reference.tag = "latest";
    return reference;
}

}  // namespace

Result<Reference> Reference::parse(std::string_view text) {
    return parse_with_default(text, kDefaultRegistry);
}

Result<std::vector<Reference>> Reference::candidates(std::string_view text,
                                                     const std::vector<std::string>& search) {
    std::vector<Reference> found;
    if (search.empty() || !split(text).domain.empty()) {
        found.push_back(TRY(parse(text)));
        return found;
    }
    for (const std::string& host : search) found.push_back(TRY(parse_with_default(text, host)));
    return found;
}

std::string Reference::to_string() const {
    std::string text = fmt::format("{}/{}", registry, repository);
    if (!tag.empty()) text += ":" + tag;
    if (digest) text += "@" + digest->to_string();
    return text;
}

std::string Reference::familiar() const {
    if (registry != kDefaultRegistry) return to_string();
    std::string text = to_string().substr(kDefaultRegistry.size() + 1);
    // "docker.io/a.b/c" keeps its registry: "a.b/c" would be of another one.
    if (!split(text).domain.empty()) return to_string();
    // "library/a/b" keeps its prefix: "a/b" would mean another repository.
    const std::string_view rest =
        std::string_view(repository).substr(std::min(repository.size(), kOfficialPrefix.size()));
    if (text.starts_with(kOfficialPrefix) && rest.find('/') == std::string_view::npos)
        text.erase(0, kOfficialPrefix.size());
    return text;
}

std::string Reference::tag_or_digest() const {
    return digest ? digest->to_string() : tag;
}

bool is_loopback_registry(std::string_view registry) {
    if (registry.starts_with("[::1]")) return true;
    const std::string_view host = registry.substr(0, registry.find(':'));
    if (host == "localhost") return true;
    // A full dotted quad: "127.0.0.1.example.org" is somebody else's host.
    int parts = 0;
    const bool quad = each_part(host, '.', [&](std::string_view part) {
        ++parts;
        return !part.empty() && part.size() <= 3 && all(part, is_digit);
    });
    return quad && parts == 4 && host.starts_with("127.");
}

}  // namespace boxlite::image
