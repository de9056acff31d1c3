#include "service/tools/argument_check.h"

#include <gtest/gtest.h>

#include <string>

#include "service/tools/argument_rules.h"
#include "service/tools/tool_format.h"
#include "service/tools/tool_schemas.h"

// Tool schemas that a malicious client writes to keep the server busy.
namespace kvik {
namespace {

Json text(std::string words) { return {std::move(words)}; }
Json object(Json::Fields fields) { return {std::move(fields)}; }

// Returns the schema of an object with one property "x" and one definition "a".
Json parameters(Json x, Json a) {
  return object({{"type", text("object")},
                 {"properties", object({{"x", std::move(x)}})},
                 {"$defs", object({{"a", std::move(a)}})}});
}

Json reference() { return object({{"$ref", text("#/$defs/a")}}); }

// Returns a definition whose alternatives are `n` references to itself.
Json circle(size_t n) { return object({{"anyOf", {Json::List(n, reference())}}}); }

TEST(ArgumentCheck, circular_alternatives_do_not_fit) {
  for (const size_t n : {1, 2, 64}) {
    const Json schema = parameters(reference(), circle(n));
    EXPECT_FALSE(fits_schema(&schema, R"({"x": 1})")) << n;
  }
}

TEST(ArgumentCheck, more_comparisons_than_the_budget_do_not_fit) {
  Json::List names;
  for (int i = 0; i < 6500; ++i) names.push_back(text("name " + std::to_string(i)));
  const Json items = object({{"items", object({{"enum", {names}}})}});
  const Json schema = parameters(items, Json{true});
  const auto with_items = [](size_t n) {
    std::string json = R"({"x": [)";
    for (size_t i = 0; i < n; ++i) json += R"("name 6499",)";
    json.back() = ']';
    return json + "}";
  };
  EXPECT_TRUE(fits_schema(&schema, with_items(10)));
  EXPECT_FALSE(fits_schema(&schema, with_items(1500)));
}

TEST(ArgumentCheck, enum_values_are_compared_by_what_they_hold) {
  const Json::List values = {Json{int64_t{3}},
                             Json{0.5},
                             Json{true},
                             Json{},
                             text("3"),
                             Json{Json::List{Json{int64_t{1}}, text("a")}},
                             object({{"k", Json{int64_t{1}}}, {"l", Json{false}}})};
  const Json schema = parameters(object({{"enum", {values}}}), Json{true});
  for (const char* x : {"3", "3.0", "0.5", "5e-1", "true", "null", "\"3\"", "[1, \"a\"]",
                        R"({"l": false, "k": 1})"}) {
    EXPECT_TRUE(fits_schema(&schema, std::string(R"({"x": )") + x + "}")) << x;
  }
  for (const char* x : {"4", "false", "\"\"", "[1]", "[1, \"b\"]", R"({"k": 1})", "{}",
                        R"({"k": 1, "m": false})", "\"true\""}) {
    EXPECT_FALSE(fits_schema(&schema, std::string(R"({"x": )") + x + "}")) << x;
  }
}

TEST(ToolSchemas, kinds_are_found_through_references_that_lead_back) {
  Json::List choices(64, reference());
  choices.push_back(object({{"type", text("integer")}}));
  choices.push_back(object({{"type", text("null")}}));
  const Json schema = parameters(reference(), object({{"anyOf", {choices}}}));
  EXPECT_EQ(kinds_of(schema, reference()), (std::set<std::string, std::less<>>{"integer", "null"}));
  EXPECT_TRUE(kinds_of(parameters(reference(), circle(64)), reference()).empty());
}

TEST(ToolSchemas, a_schema_of_too_many_choices_is_taken_to_allow_any_kind) {
  Json::List choices;
  for (int i = 0; i < 1000; ++i) choices.push_back(object({{"const", Json{int64_t{i}}}}));
  EXPECT_TRUE(kinds_of(Json{true}, object({{"anyOf", {choices}}})).empty());
  choices.resize(100);
  EXPECT_EQ(kinds_of(Json{true}, object({{"anyOf", {choices}}})).size(), 1u);
}

TEST(ArgumentRules, definitions_are_not_repeated_beyond_a_bound) {
  Json::List long_list;
  for (int i = 0; i < 2000; ++i) long_list.push_back(text("a value of a definition"));
  const Json definition = object({{"type", text("array")}, {"enum", {long_list}}});
  const auto with_parameters = [&](int n) {
    Json::Fields properties;
    for (int i = 0; i < n; ++i) properties.push_back({"p" + std::to_string(i), reference()});
    return object({{"type", text("object")},
                   {"properties", object(std::move(properties))},
                   {"$defs", object({{"a", definition}})}});
  };
  const CallSyntax& xml = find_syntax(*find_tool_format("xml"), "");
  const Json few = with_parameters(3), many = with_parameters(3000);
  GrammarRules rules;
  EXPECT_TRUE(argument_rules(xml, &few, rules).has_value());
  EXPECT_FALSE(argument_rules(xml, &many, rules).has_value());
}

}  // namespace
}  // namespace kvik
