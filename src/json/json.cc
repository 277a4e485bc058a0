#include "json/json.h"

#include <algorithm>
#include <set>

namespace boxlite::json {

namespace {

// Depth of nesting, found before anything is built from the text.
int nesting_depth(std::string_view text) {
    int depth = 0, deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            deepest = std::max(deepest, ++depth);
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return deepest;
}

}  // namespace

Result<Value> parse(std::string_view text, std::string_view what, ErrorCode code, Limits limits) {
    if (text.size() > limits.bytes)
        return base::make_error(code, "{} is {} bytes of JSON, more than the {} allowed", what, text.size(),
                                limits.bytes);
    if (nesting_depth(text) > limits.depth)
        return base::make_error(code, "{} nests deeper than {} levels", what, limits.depth);

    std::vector<std::set<std::string>> open_objects;
    std::optional<std::string> duplicate;
    const auto watch = [&](int, Value::parse_event_t event, Value& parsed) {
        if (event == Value::parse_event_t::object_start) open_objects.emplace_back();
        if (event == Value::parse_event_t::object_end) open_objects.pop_back();
        if (event == Value::parse_event_t::key && !open_objects.back().insert(parsed).second && !duplicate)
            duplicate = parsed.get<std::string>();
        return true;
    };
    Value value = Value::parse(text.begin(), text.end(), watch, /*allow_exceptions=*/false);
    if (value.is_discarded()) return base::make_error(code, "{} is not valid JSON", what);
    if (duplicate) return base::make_error(code, "{} has two members named '{}'", what, *duplicate);
    return value;
}

std::string dump(const Value& value, int indent) {
    return value.dump(indent, ' ', false, Value::error_handler_t::replace);
}

Error Reader::error(std::string_view reason) const {
    return base::make_error(code_, "{}: {}", path_, reason);
}

Error Reader::wrong_type(std::string_view wanted) const {
    return base::make_error(code_, "{}: {} is wanted, not {}", path_, wanted, value_->type_name());
}

Reader Reader::child(const Value& value, std::string_view name) const {
    return Reader(value, fmt::format("{}.{}", path_, name), code_);
}

Result<std::string> Reader::as_string() const {
    if (!value_->is_string()) return wrong_type("a string");
    return value_->get<std::string>();
}

Result<int64_t> Reader::as_integer() const {
    if (!value_->is_number_integer()) return wrong_type("an integer");
    if (value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX) return error("is too large");
    return value_->get<int64_t>();
}

Result<uint64_t> Reader::as_unsigned() const {
    if (!value_->is_number_integer()) return wrong_type("an integer");
    if (!value_->is_number_unsigned()) return error("must not be negative");
    return value_->get<uint64_t>();
}

Result<bool> Reader::as_bool() const {
    if (!value_->is_boolean()) return wrong_type("true or false");
    return value_->get<bool>();
}

Result<std::vector<Reader>> Reader::as_array() const {
    if (!value_->is_array()) return wrong_type("an array");
    std::vector<Reader> elements;
    for (const Value& element : *value_)
        elements.emplace_back(element, fmt::format("{}[{}]", path_, elements.size()), code_);
    return elements;
}

Result<std::vector<std::pair<std::string, Reader>>> Reader::as_object() const {
    if (!value_->is_object()) return wrong_type("an object");
    std::vector<std::pair<std::string, Reader>> members;
    for (auto it = value_->begin(); it != value_->end(); ++it)
        members.emplace_back(it.key(), child(it.value(), it.key()));
    return members;
}

Result<std::vector<std::string>> Reader::as_strings() const {
    std::vector<std::string> strings;
    for (const Reader& element : TRY(as_array())) strings.push_back(TRY(element.as_string()));
    return strings;
}

Result<std::map<std::string, std::string>> Reader::as_string_map() const {
    std::map<std::string, std::string> map;
    for (const auto& [name, member] : TRY(as_object())) map.emplace(name, TRY(member.as_string()));
    return map;
}

Result<std::optional<Reader>> Reader::find(std::string_view name) const {
    if (!value_->is_object()) return wrong_type("an object");
    const auto it = value_->find(name);
    if (it == value_->end() || it->is_null()) return std::optional<Reader>();
    return std::optional(child(*it, name));
}

Result<Reader> Reader::at(std::string_view name) const {
    auto member = TRY(find(name));
    if (!member) return error(fmt::format("has no '{}'", name));
    return *member;
}

Result<std::string> Reader::string_or(std::string_view name, std::string fallback) const {
    const auto member = TRY(find(name));
    return member ? member->as_string() : Result<std::string>(std::move(fallback));
}

Result<int64_t> Reader::integer_or(std::string_view name, int64_t fallback) const {
    const auto member = TRY(find(name));
    return member ? member->as_integer() : Result<int64_t>(fallback);
}

Result<bool> Reader::bool_or(std::string_view name, bool fallback) const {
    const auto member = TRY(find(name));
    return member ? member->as_bool() : Result<bool>(fallback);
}

Result<std::vector<std::string>> Reader::strings_or_empty(std::string_view name) const {
    const auto member = TRY(find(name));
    return member ? member->as_strings() : Result<std::vector<std::string>>(std::vector<std::string>());
}

Result<std::map<std::string, std::string>> Reader::string_map_or_empty(std::string_view name) const {
    const auto member = TRY(find(name));
    return member ? member->as_string_map() : std::map<std::string, std::string>();
}

Result<void> Reader::allow_only(std::initializer_list<std::string_view> names) const {
    for (const auto& [name, member] : TRY(as_object()))
        if (std::find(names.begin(), names.end(), name) == names.end())
            return error(fmt::format("has an unknown member '{}'", name));
    return {};
}

}  // namespace boxlite::json
