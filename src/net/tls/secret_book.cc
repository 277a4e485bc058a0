#include "net/tls/secret_book.h"

#include <algorithm>

#include "net/http_text.h"

namespace boxlite::net::tls {

namespace {

// As text in JSON (RFC 8259, 7), with the escapes that are needed.
std::string json_escape(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '"' || c == '\\') escaped += '\\';
        escaped += c;
    }
    return escaped;
}

std::string html_escape(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        constexpr std::pair<char, std::string_view> kNames[] = {
            {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
        const auto* name =
            std::find_if(std::begin(kNames), std::end(kNames), [c](const auto& n) { return n.first == c; });
        if (name == std::end(kNames))
            escaped += c;
        else
            escaped += name->second;
    }
    return escaped;
}

}  // namespace

SecretBook::SecretBook(std::vector<SecretName> names)
    : names_(std::move(names)), entries_(names_.all().size()) {}

SecretBook::~SecretBook() {
    for (Entry& entry : entries_) {
        wipe(entry.value);
        wipe(entry.previous);
    }
}

Result<void> SecretBook::set(const std::vector<std::pair<std::string, std::string>>& values) {
    const auto& all = names_.all();
    const auto find = [&](const std::string& name) {
        return std::find_if(all.begin(), all.end(),
                            [&](const SecretName& secret) { return secret.name == name; });
    };
    for (const auto& [name, value] : values) {
        if (find(name) == all.end())
            return base::make_error(ErrorCode::kNotFound, "the box has no secret {}: it was made without",
                                    name);
        TRY(check_secret_value(name, value));
    }
    for (const auto& [name, value] : values) {
        Entry& entry = entries_[static_cast<size_t>(find(name) - all.begin())];
        if (entry.value == value) continue;
        wipe(entry.previous);
        entry.previous.swap(entry.value);
        entry.value = value;
    }
    collect_scrubs();
    return {};
}

void SecretBook::collect_scrubs() {
    for (Replacement& scrub : scrubs_) wipe(scrub.text);
    scrubs_.clear();
    const auto add = [this](const std::string& form, const std::string& placeholder) {
        const bool known =
            std::any_of(scrubs_.begin(), scrubs_.end(), [&](const auto& s) { return s.text == form; });
        if (!form.empty() && !known) scrubs_.push_back({form, placeholder});
    };
    for (size_t i = 0; i < entries_.size(); ++i)
        for (const std::string& value : {entries_[i].value, entries_[i].previous})
            for (const std::string& form :
                 {value, percent_encode(value), json_escape(value), html_escape(value)})
                add(form, names_.all()[i].placeholder);
    scrubs_.insert(scrubs_.end(), forms_.begin(), forms_.end());
}

std::string SecretBook::check(std::string_view host, const SecretName& secret) const {
    if (!secret.is_for(host)) return fmt::format("{}, not for {}", secret.describe(), host);
    const auto index = static_cast<size_t>(&secret - names_.all().data());
    if (!entries_[index].value.empty()) return {};
    return fmt::format(
        "secret {} has no value in this box yet: `boxlite update --secret {}=VALUE` gives it one",
        secret.name, secret.name);
}

std::string SecretBook::fill(std::string_view host, std::string& text) {
    std::vector<Replacement> fills;
    for (const SecretName& secret : names_.all()) {
        if (text.find(secret.placeholder) == std::string::npos) continue;
        if (std::string why = check(host, secret); !why.empty()) return why;
        fills.push_back(
            {secret.placeholder, entries_[static_cast<size_t>(&secret - names_.all().data())].value});
    }
    if (!fills.empty()) replace_all(fills, text);
    for (Replacement& fill : fills) wipe(fill.with);
    return {};
}

std::string SecretBook::fill_field(std::string_view host, std::string& value) {
    auto credentials = decode_basic(value);
    if (!credentials || !names_.find(*credentials)) return fill(host, value);
    const std::string seen = value;
    std::string why = fill(host, *credentials);
    if (why.empty()) {
        value = encode_basic(*credentials);
        constexpr size_t kScheme = 6;  // "Basic ", which others may leave away
        const Replacement form{value.substr(kScheme),
                               std::string(trim(std::string_view(seen).substr(kScheme)))};
        const bool known =
            std::any_of(forms_.begin(), forms_.end(), [&](const auto& f) { return f.text == form.text; });
        if (!known) {
            if (forms_.size() == kMaxForms) forms_.pop_front();
            forms_.push_back(form);
            collect_scrubs();
        }
    }
    wipe(*credentials);
    return why;
}

std::string SecretBook::fill_target(std::string_view host, std::string& target) {
    const size_t mark = std::min(target.find('?'), target.size());
    const std::string path = target.substr(0, mark);
    if (const SecretName* secret = names_.find_in_head(path))
        return secret->describe() + ", and goes into headers only, not into a path";
    std::string filled = path;
    for (size_t at = mark; at < target.size();) {
        filled += target[at++];  // '?', '&' or '='
        const size_t end = std::min(target.find_first_of("&=", at), target.size());
        std::string part = target.substr(at, end - at);
        at = end;
        std::string plain = part;
        std::replace(plain.begin(), plain.end(), '+', ' ');
        plain = percent_decode(plain);
        if (const SecretName* secret = names_.find(plain)) {
            if (!secret->in_query) return secret->describe() + ", and not for the query of a URL";
            if (std::string why = fill(host, plain); !why.empty()) return why;
            part = percent_encode(plain);
        }
        filled += part;
    }
    target = std::move(filled);
    return {};
}

}  // namespace boxlite::net::tls
