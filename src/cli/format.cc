#include "cli/format.h"

#include "cli/go_template.h"
#include "cli/output.h"
#include "cli/yaml.h"

namespace boxlite::cli {

namespace {

std::string table(const std::vector<Value>& items, const std::vector<Column>& columns) {
    std::vector<std::string> headings;
    for (const Column& column : columns) headings.emplace_back(column.heading);
    std::vector<std::vector<std::string>> rows;
    for (const Value& item : items) {
        rows.emplace_back();
        for (const Column& column : columns) rows.back().push_back(column.cell(item));
    }
    return format_table(headings, rows);
}

// Go's spelling of a field as a heading: "CreatedAt" is "CREATED AT".
std::string heading_of(const std::string& field) {
    std::string heading;
    for (size_t i = 0; i < field.size(); ++i) {
        const bool upper = field[i] >= 'A' && field[i] <= 'Z';
        const bool after_lower = i > 0 && field[i - 1] >= 'a' && field[i - 1] <= 'z';
        if (upper && after_lower) heading += ' ';
        heading += static_cast<char>(field[i] >= 'a' && field[i] <= 'z' ? field[i] - 'a' + 'A' : field[i]);
    }
    return heading;
}

Result<std::string> templated(std::string_view text, const std::vector<Value>& items, bool aligned) {
    const GoTemplate parsed = TRY(GoTemplate::parse(text));
    std::vector<std::string> lines;
    if (aligned) {
        std::string headings;
        for (const std::string& name : parsed.field_names())
            headings += (headings.empty() ? "" : "\t") + heading_of(name);
        lines.push_back(headings);
    }
    for (const Value& item : items) {
        std::string line = TRY(parsed.execute(item));
        lines.push_back(std::move(line));
    }
    if (aligned) return align_tabs(lines);
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

}  // namespace

Result<std::string> format_items(const std::string& format, const std::vector<Value>& items,
                                 const std::vector<Column>& columns, bool single) {
    constexpr std::string_view kTablePrefix = "table ";
    const bool one = single && items.size() == 1;
    if (format == "json")
        return (one ? items[0] : Value(items)).dump(2, ' ', false, Value::error_handler_t::replace) + "\n";
    if (format == "yaml") return to_yaml(one ? items[0] : Value(items));
    if (format == "table" && !columns.empty()) return table(items, columns);
    if (format.starts_with(kTablePrefix))
        return templated(std::string_view(format).substr(kTablePrefix.size()), items, true);
    if (format.find("{{") != std::string::npos) return templated(format, items, false);
    return base::make_error(ErrorCode::kInvalidArgument,
                            "unknown --format '{}': {}json, yaml or a Go template such as '{{{{.Id}}}}'",
                            format, columns.empty() ? "" : "table, ");
}

}  // namespace boxlite::cli
