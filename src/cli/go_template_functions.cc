#include "cli/go_template_functions.h"

#include <functional>
#include <map>

#include "cli/go_template.h"

namespace boxlite::cli {

namespace {

using Args = std::vector<Value>;
using Function = std::function<Result<Value>(const Args&)>;

Error wrong(std::string_view name, std::string_view needs) {
    return base::make_error(ErrorCode::kInvalidArgument, "template function {} needs {}", name, needs);
}

std::string map_letters(const std::string& text, bool upper) {
    std::string result = text;
    for (char& c : result) {
        if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
        if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    return result;
}

Function text_function(std::string_view name, std::string (*change)(const std::string&)) {
    return [name, change](const Args& args) -> Result<Value> {
        if (args.size() != 1 || !args[0].is_string()) return wrong(name, "one string");
        return Value(change(args[0].get_ref<const std::string&>()));
    };
}

Function comparison(std::string_view name, bool (*holds)(const Value&, const Value&)) {
    return [name, holds](const Args& args) -> Result<Value> {
        if (args.size() < 2) return wrong(name, "two values");
        for (size_t i = 1; i < args.size(); ++i)
            if (holds(args[0], args[i])) return Value(true);
        return Value(false);
    };
}

Result<Value> index(const Args& args) {
    if (args.empty()) return wrong("index", "a list or map");
    Value value = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
        const Value& key = args[i];
        if (value.is_array() && key.is_number_unsigned() && key.get<size_t>() < value.size())
            value = Value(value[key.get<size_t>()]);
        else if (value.is_object() && key.is_string())
            value = value.contains(key.get_ref<const std::string&>())
                        ? Value(value[key.get_ref<const std::string&>()])
                        : Value(nullptr);
        else
            return wrong("index", "an index that is there");
    }
    return value;
}

Result<Value> join(const Args& args) {
    if (args.size() != 2 || !args[0].is_array() || !args[1].is_string())
        return wrong("join", "a list and a separator");
    std::string text;
    for (const Value& item : args[0]) {
        if (!text.empty() || &item != &args[0].front()) text += args[1].get_ref<const std::string&>();
        text += go_print(item);
    }
    return Value(std::move(text));
}

Result<Value> split(const Args& args) {
    if (args.size() != 2 || !args[0].is_string() || !args[1].is_string() ||
        args[1].get_ref<const std::string&>().empty())
        return wrong("split", "a string and a separator");
    const std::string& text = args[0].get_ref<const std::string&>();
    const std::string& separator = args[1].get_ref<const std::string&>();
    Value parts = Value::array();
    size_t start = 0;
    for (size_t end; (end = text.find(separator, start)) != std::string::npos; start = end + separator.size())
        parts.push_back(text.substr(start, end - start));
    parts.push_back(text.substr(start));
    return parts;
}

Result<Value> length(const Args& args) {
    if (args.size() != 1 || !(args[0].is_structured() || args[0].is_string()))
        return wrong("len", "a list, map or string");
    return Value(args[0].is_string() ? args[0].get_ref<const std::string&>().size() : args[0].size());
}

std::string print_all(const Args& args) {
    std::string text;
    for (const Value& arg : args) text += (text.empty() ? "" : " ") + go_print(arg);
    return text;
}

const std::map<std::string_view, Function>& functions() {
    static const std::map<std::string_view, Function> table = {
        {"json",
         [](const Args& args) -> Result<Value> {
             if (args.size() != 1) return wrong("json", "one value");
             return Value(args[0].dump(-1, ' ', false, Value::error_handler_t::replace));
         }},
        {"len", length},
        {"index", index},
        {"join", join},
        {"split", split},
        {"upper", text_function("upper", [](const std::string& t) { return map_letters(t, true); })},
        {"lower", text_function("lower", [](const std::string& t) { return map_letters(t, false); })},
        {"title", text_function("title",
                                [](const std::string& t) {
                                    return map_letters(t.substr(0, 1), true) + t.substr(t.empty() ? 0 : 1);
                                })},
        {"print", [](const Args& args) -> Result<Value> { return Value(print_all(args)); }},
        {"println", [](const Args& args) -> Result<Value> { return Value(print_all(args) + "\n"); }},
        {"eq", comparison("eq", [](const Value& a, const Value& b) { return a == b; })},
        {"ne", comparison("ne", [](const Value& a, const Value& b) { return a != b; })},
        {"lt", comparison("lt", [](const Value& a, const Value& b) { return a < b; })},
        {"le", comparison("le", [](const Value& a, const Value& b) { return a <= b; })},
        {"gt", comparison("gt", [](const Value& a, const Value& b) { return a > b; })},
        {"ge", comparison("ge", [](const Value& a, const Value& b) { return a >= b; })},
        {"and",
         [](const Args& args) -> Result<Value> {
             for (const Value& arg : args)
                 if (!is_truthy(arg)) return arg;
             return args.empty() ? wrong("and", "a value") : Result<Value>(args.back());
         }},
        {"or",
         [](const Args& args) -> Result<Value> {
             for (const Value& arg : args)
                 if (is_truthy(arg)) return arg;
             return args.empty() ? wrong("or", "a value") : Result<Value>(args.back());
         }},
        {"not",
         [](const Args& args) -> Result<Value> {
             return args.size() == 1 ? Result<Value>(Value(!is_truthy(args[0]))) : wrong("not", "one value");
         }},
    };
    return table;
}

}  // namespace

bool is_template_function(std::string_view name) {
    return functions().contains(name);
}

bool is_truthy(const Value& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number()) return value != 0;
    if (value.is_string()) return !value.get_ref<const std::string&>().empty();
    return !value.empty();
}

Result<Value> call_template_function(std::string_view name, const std::vector<Value>& args) {
    return functions().at(name)(args);
}

}  // namespace boxlite::cli
