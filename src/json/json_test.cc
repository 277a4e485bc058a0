#include "json/json.h"

#include <gtest/gtest.h>

namespace boxlite::json {
namespace {

TEST(JsonParse, RefusesWhatIsNotOneStrictDocument) {
    for (const char* text : {"", "{", "[1,]", "{'a':1}", "{} {}", "nan", "\"\xff\"", "// c\n1"}) {
        const auto parsed = parse(text, "the document", ErrorCode::kImage);
        ASSERT_FALSE(parsed.ok()) << text;
        EXPECT_EQ(parsed.error().code, ErrorCode::kImage);
        EXPECT_NE(parsed.error().message.find("the document"), std::string::npos);
    }
}

TEST(JsonParse, RefusesDuplicateMembersOfOneObjectOnly) {
    EXPECT_FALSE(parse(R"({"a":1,"b":{"c":1},"a":2})", "x").ok());
    EXPECT_FALSE(parse(R"([{"b":{"c":1,"c":1}}])", "x").ok());
    EXPECT_TRUE(parse(R"({"a":{"a":1},"b":[{"a":1},{"a":2}]})", "x").ok());
}

TEST(JsonParse, HoldsToItsLimits) {
    EXPECT_TRUE(parse("[[[1]]]", "x", ErrorCode::kImage, {.depth = 3}).ok());
    EXPECT_FALSE(parse("[[[[1]]]]", "x", ErrorCode::kImage, {.depth = 3}).ok());
    EXPECT_TRUE(parse(R"(["[[[[","\"[[[["])", "x", ErrorCode::kImage, {.depth = 3}).ok());
    EXPECT_FALSE(parse("[1,2,3]", "x", ErrorCode::kImage, {.bytes = 6}).ok());
    EXPECT_FALSE(parse(std::string(1'000'000, '['), "x").ok());
}

TEST(JsonReader, ErrorsNameThePath) {
    const Value value = parse(R"({"layers":[{"size":1},{"size":"big"}],"n":-1,"huge":1e30})", "x").value();
    const Reader root(value, "manifest", ErrorCode::kImage);
    const auto layers = root.at("layers").value().as_array().value();
    const auto wrong = layers[1].at("size").value().as_unsigned();
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().code, ErrorCode::kImage);
    EXPECT_EQ(wrong.error().message, "manifest.layers[1].size: an integer is wanted, not string");
    EXPECT_EQ(root.at("missing").error().message, "manifest: has no 'missing'");
    EXPECT_FALSE(root.at("n").value().as_unsigned().ok());
    EXPECT_EQ(root.at("n").value().as_integer().value(), -1);
    EXPECT_FALSE(root.at("huge").value().as_unsigned().ok());
    EXPECT_FALSE(layers[0].at("size").value().find("x").ok());
}

TEST(JsonReader, NullIsAbsentAndDefaultsApply) {
    const Value value = parse(R"({"a":null,"b":"x","l":["p","q"],"m":{"k":"v"},"t":true})", "x").value();
    const Reader root(value, "c");
    EXPECT_EQ(root.string_or("a", "d").value(), "d");
    EXPECT_EQ(root.string_or("b", "d").value(), "x");
    EXPECT_FALSE(root.string_or("t", "d").ok());
    EXPECT_EQ(root.strings_or_empty("l").value(), (std::vector<std::string>{"p", "q"}));
    EXPECT_TRUE(root.strings_or_empty("a").value().empty());
    EXPECT_FALSE(root.strings_or_empty("m").ok());
    EXPECT_EQ(root.string_map_or_empty("m").value().at("k"), "v");
    EXPECT_TRUE(root.bool_or("t", false).value());
    EXPECT_EQ(root.integer_or("none", 7).value(), 7);
}

TEST(JsonReader, AllowOnlyNamesTheStranger) {
    const Value value = parse(R"({"host":"h","hots":"x"})", "x").value();
    const Reader root(value, "registries[0]", ErrorCode::kConfig);
    EXPECT_EQ(root.allow_only({"host"}).error().message, "registries[0]: has an unknown member 'hots'");
    EXPECT_TRUE(root.allow_only({"host", "hots"}).ok());
}

TEST(JsonDump, NeverFails) {
    EXPECT_EQ(dump(Value{{"k", "v"}}), R"({"k":"v"})");
    EXPECT_EQ(dump(Value("\xff")), "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace boxlite::json
