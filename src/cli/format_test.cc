#include "cli/format.h"

#include <gtest/gtest.h>

#include "base/process.h"
#include "cli/go_template.h"
#include "cli/output.h"
#include "cli/yaml.h"

namespace boxlite::cli {
namespace {

Value sample() {
    return Value::parse(R"({"Id":"abc","Name":"one","State":{"Running":true,"ExitCode":null,"Pid":7},
                            "Env":["A=1","B=2"],"Empty":[],"Cpus":2,"Labels":{"x":"y"}})");
}

struct TemplateCase {
    const char* text;
    const char* expected;
};

// Right values are those of Go 1.19's text/template with the same data.
class TemplateTest : public ::testing::TestWithParam<TemplateCase> {};

TEST_P(TemplateTest, PrintsAsGo) {
    const auto parsed = GoTemplate::parse(GetParam().text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    const auto text = parsed->execute(sample());
    ASSERT_TRUE(text.ok()) << text.error().message;
    EXPECT_EQ(*text, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, TemplateTest,
    ::testing::Values(
        TemplateCase{"plain", "plain"}, TemplateCase{"{{.Id}}", "abc"}, TemplateCase{"{{ .Name }}!", "one!"},
        TemplateCase{"{{.State.Pid}} {{.State.Running}}", "7 true"}, TemplateCase{"{{.ID}}", "abc"},
        TemplateCase{"{{.Id}}\\t{{.Name}}", "abc\tone"}, TemplateCase{"{{.Env}}", "[A=1 B=2]"},
        TemplateCase{"{{.Labels}}", "map[x:y]"}, TemplateCase{"{{json .Env}}", R"(["A=1","B=2"])"},
        TemplateCase{"{{.Id | json}}", "\"abc\""},
        TemplateCase{"{{json .State}}", R"({"Running":true,"ExitCode":null,"Pid":7})"},
        TemplateCase{"{{range .Env}}<{{.}}>{{end}}", "<A=1><B=2>"},
        TemplateCase{"{{range .Empty}}x{{else}}none{{end}}", "none"},
        TemplateCase{"{{if .State.Running}}up{{else}}down{{end}}", "up"},
        TemplateCase{"{{if .Empty}}a{{else if eq .Cpus 2}}b{{else}}c{{end}}", "b"},
        TemplateCase{"{{if and .Id (not .Empty)}}yes{{end}}", "yes"},
        TemplateCase{"{{with .State}}{{.Pid}}{{end}}", "7"},
        TemplateCase{"{{len .Env}}{{index .Env 1}}", "2B=2"},
        TemplateCase{"{{join .Env \", \"}}", "A=1, B=2"},
        TemplateCase{"{{upper .Name}} {{.Name | title}}", "ONE One"},
        TemplateCase{"{{print .Id \"-\" 7}}", "abc - 7"}, TemplateCase{"a {{- .Id -}} b", "aabcb"},
        TemplateCase{"{{/* nothing */}}x", "x"}, TemplateCase{"{{\"q\\\"t\\n\"}}", "q\"t\n"},
        TemplateCase{"{{`raw\\n`}}", "raw\\n"}, TemplateCase{"{{$.Id}}", "abc"},
        TemplateCase{"{{range split \"a:b\" \":\"}}{{.}};{{end}}", "a;b;"},
        TemplateCase{"{{index .Labels \"x\"}}", "y"}, TemplateCase{"{{if gt .Cpus 1}}many{{end}}", "many"}));

TEST(GoTemplate, MistakesAreTold) {
    for (const char* bad :
         {"{{", "{{.Id", "{{end}}", "{{else}}", "{{if .Id}}", "{{range .Env}}{{else}}", "{{nope .Id}}",
          "{{.Id .Name}}", "{{}}", "{{.a..b}}", "{{\"x}}", "{{(.Id}}", "{{.Id)}}", "{{.Id | }}", "{{| json}}",
          "{{.Id | .Name}}", "{{if}}x{{end}}", "{{?}}"})
        EXPECT_FALSE(GoTemplate::parse(bad).ok()) << bad;
    for (const char* bad : {"{{.Missing}}", "{{.Id.Deeper}}", "{{index .Env 5}}", "{{join .Id \",\"}}",
                            "{{range .Id}}{{end}}", "{{len .Cpus}}", "{{index .Env -1}}"}) {
        const auto parsed = GoTemplate::parse(bad);
        ASSERT_TRUE(parsed.ok()) << bad;
        EXPECT_FALSE(parsed->execute(sample()).ok()) << bad;
    }
}

TEST(FormatItems, EveryKind) {
    const std::vector<Column> columns = {
        {"ID", [](const Value& v) { return v.at("Id").get<std::string>(); }},
        {"NAME", [](const Value& v) { return v.at("Name").get<std::string>(); }}};
    const std::vector<Value> items = {{{"Id", "a"}, {"Name", "först"}},
                                      {{"Id", "bbbb"}, {"Name", "x\x1b[0m"}}};
    EXPECT_EQ(*format_items("table", items, columns), "ID     NAME\na      först\nbbbb   x?[0m\n");
    EXPECT_EQ(*format_items("{{.Id}}", items, columns), "a\nbbbb\n");
    EXPECT_EQ(*format_items("table {{.Id}}\t{{.Name}}", {items[0]}, columns), "ID   NAME\na    först\n");
    EXPECT_EQ(Value::parse(*format_items("json", items, columns)), Value(items));
    EXPECT_TRUE(Value::parse(*format_items("json", {items[0]}, columns, true)).is_object());
    EXPECT_EQ(*format_items("json", {}, columns), "[]\n");
    EXPECT_FALSE(format_items("xml", items, columns).ok());
    EXPECT_FALSE(format_items("table", items, {}).ok());
}

TEST(Yaml, ReadsBackAsWhatItWas) {
    const Value value = Value::parse(R"({
        "plain": "word", "path": "/bin/sh -c", "empty": "", "number": 7, "float": 1.5, "nothing": null, "yes": true,
        "words": ["yes", "No", "null", "~", "1.5", "0x10", "1e3", "-", "- a", "a: b", "a #b", "a:", " a", "a ", "#a", "*a",
                  "&a", "!a", "|", ">", "%a", "@a", "`a`", "'a'", "\"a\"", "{a}", "[a]", "a, b", "?", "on", "2001-01-01",
                  "line\nbreak", "tab\there", "ünïcödé", "\u0007", "<<", "=", "a:b", "a#b", "y"],
        "list of maps": [{"a": 1, "b": {"c": [1, [2, 3], []]}}, {}, [], [{"x": "y"}]],
        "deep": {"a": {"b": {"c": "d"}, "e": []}}, "true": 1, "key: odd": 2})");
    const auto read = base::run_command(
        {"python3", "-c",
         "import sys, json, yaml; json.dump(yaml.safe_load(sys.stdin.buffer.read()), sys.stdout)"},
        to_yaml(value));
    ASSERT_TRUE(read.ok());
    ASSERT_EQ(read->status.shell_code(), 0) << read->err << to_yaml(value);
    EXPECT_EQ(nlohmann::json::parse(read->out), nlohmann::json::parse(value.dump())) << to_yaml(value);
}

TEST(Output, SizesAndAges) {
    EXPECT_EQ(human_bytes(0), "0B");
    EXPECT_EQ(human_bytes(999), "999B");
    EXPECT_EQ(human_bytes(1000), "1.00kB");
    EXPECT_EQ(human_bytes(12'345'678), "12.3MB");
    EXPECT_EQ(human_bytes(999'999), "1.00MB");
    constexpr int64_t kSecond = 1'000'000'000;
    EXPECT_EQ(human_age(0, 5), "");
    EXPECT_EQ(human_age(100 * kSecond, 100 * kSecond), "just now");
    EXPECT_EQ(human_age(kSecond, 2 * kSecond), "1 second ago");
    EXPECT_EQ(human_age(kSecond, (1 + 2 * 3600) * kSecond), "2 hours ago");
    EXPECT_EQ(human_age(kSecond, 1), "just now") << "a clock that went back";
}

}  // namespace
}  // namespace boxlite::cli
