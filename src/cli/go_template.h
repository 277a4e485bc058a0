// The part of Go's text/template that people use with --format: {{.Field.Sub}}, {{json .}}, {{range .List}}…
// {{else}}…{{end}}, {{if .X}}…{{else if .Y}}…{{else}}…{{end}}, pipelines, string and number literals, trim
// markers, comments, and the functions json, len, index, join, upper, lower, title, split, print, println,
// eq, ne, lt, le, gt, ge, and, or, not. "\t" and "\n" written in the text mean the characters, as with
// Docker. Fields are found in any case when the exact one is missing: {{.ID}} is {{.Id}}.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/value.h"

namespace boxlite::cli {

class GoTemplate {
  public:
    // kInvalidArgument says where the text is no template.
    static Result<GoTemplate> parse(std::string_view text);
    GoTemplate(GoTemplate&&) noexcept;
    GoTemplate& operator=(GoTemplate&&) noexcept;
    ~GoTemplate();

    // kInvalidArgument for a field that does not exist or a function that cannot take its arguments.
    Result<std::string> execute(const Value& value) const;

    // The names in {{.Name}} parts, in order: headings of a table.
    std::vector<std::string> field_names() const;

    struct Node;

  private:
    explicit GoTemplate(std::unique_ptr<Node> root);
    std::unique_ptr<Node> root_;
};

// A value as Go's fmt prints it.
std::string go_print(const Value& value);

}  // namespace boxlite::cli
