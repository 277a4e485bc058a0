// --format: how a command prints what it found.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/value.h"

namespace boxlite::cli {

struct Column {
    std::string_view heading;
    std::function<std::string(const Value&)> cell;
};

// `format` is table, json, yaml, a Go template, or "table " and a template for aligned columns.
//  json: an indented array (`single`: the value itself); yaml likewise; a template is applied to each item.
Result<std::string> format_items(const std::string& format, const std::vector<Value>& items,
                                 const std::vector<Column>& columns, bool single = false);

}  // namespace boxlite::cli
