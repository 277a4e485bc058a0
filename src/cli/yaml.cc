#include "cli/yaml.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace boxlite::cli {

namespace {

// Words that a YAML 1.1 or 1.2 reader takes for something else than a string.
constexpr std::array<std::string_view, 12> kReserved = {"null", "true", "false", "yes", "no",   "on",
                                                        "off",  "y",    "n",     "~",   ".nan", ".inf"};

bool is_reserved(std::string_view text) {
    std::string lower(text);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return std::find(kReserved.begin(), kReserved.end(), lower) != kReserved.end();
}

// A plain scalar must not be read as another type, nor hold what YAML gives a meaning.
bool is_plain(std::string_view text) {
    if (text.empty() || is_reserved(text)) return false;
    const char first = text.front();
    const bool letter =
        (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_' || first == '/';
    if (!letter || text.back() == ' ' || text.back() == ':') return false;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (c < ' ' || c >= 0x7f) return false;
        if (c == ':' && text[i + 1] == ' ') return false;
        if (c == '#' && text[i - 1] == ' ') return false;
    }
    return true;
}

std::string scalar(const Value& value) {
    if (const auto* text = value.get_ptr<const std::string*>(); text && is_plain(*text)) return *text;
    // JSON is YAML: a JSON string is a double-quoted scalar.
    return value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

void emit(const Value& value, size_t indent, bool after_dash, std::string& out) {
    const std::string margin(indent, ' ');
    if (value.is_object() && !value.empty()) {
        bool first = after_dash;
        for (const auto& [key, member] : value.items()) {
            if (!first) out += margin;
            first = false;
            out += scalar(key) + ":";
            if (member.is_structured() && !member.empty()) {
                out += "\n";
                emit(member, member.is_array() ? indent : indent + 2, false, out);
            } else {
                out += " " + scalar(member) + "\n";
            }
        }
    } else if (value.is_array() && !value.empty()) {
        bool first = after_dash;
        for (const Value& item : value) {
            if (!first) out += margin;
            first = false;
            out += "- ";
            emit(item, indent + 2, true, out);
        }
    } else {
        if (!after_dash) out += margin;
        out += scalar(value) + "\n";
    }
}

}  // namespace

std::string to_yaml(const Value& value) {
    std::string out;
    emit(value, 0, false, out);
    return out;
}

}  // namespace boxlite::cli
