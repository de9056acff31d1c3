#include "constrain/json_schema.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "constrain/grammar_matcher.h"

namespace kvik::constrain {
namespace {

std::shared_ptr<const VocabularyTrie> bytes_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<VocabularyTrie>(std::move(tokens));
}

class Schema {
 public:
  explicit Schema(std::string_view text, const SchemaOptions& options = {}) {
    auto made = compile_json_schema(text, options);
    if (made) {
      compiled_ = CompiledGrammar::make(std::move(made->grammar), bytes_vocabulary());
    } else {
      error_ = made.error().message;
    }
  }

  bool takes(std::string_view text) const {
    if (!compiled_) {
      ADD_FAILURE() << error_;
      return false;
    }
    GrammarMatcher matcher = compiled_->start();
    return *matcher.accept_bytes(text) == text.size() && *matcher.is_complete();
  }
  std::string forced() const { return forced_after(""); }
  std::string forced_after(std::string_view text) const {
    GrammarMatcher matcher = compiled_->start();
    EXPECT_EQ(*matcher.accept_bytes(text), text.size());
    return *matcher.forced_bytes(1000);
  }
  const std::string& error() const { return error_; }

 private:
  std::shared_ptr<CompiledGrammar> compiled_;
  std::string error_;
};

TEST(JsonSchema, lengths_and_patterns_count_characters_however_they_are_written) {
  const Schema schema(R"({"type": "string", "minLength": 2, "maxLength": 3, "pattern": "^.é"})");
  EXPECT_TRUE(schema.takes("\"xé\""));
  EXPECT_TRUE(schema.takes(R"("x\u00e9\n")"));
  EXPECT_TRUE(schema.takes(R"("\ud83d\ude00é")"));
  EXPECT_FALSE(schema.takes("\"xe\""));
  EXPECT_FALSE(schema.takes("\"xéyz\""));
  EXPECT_FALSE(schema.takes(R"("\ud83dé")"));
}

TEST(JsonSchema, a_number_without_a_fraction_is_an_integer) {
  const Schema schema(R"({"type": "integer", "minimum": -2, "exclusiveMaximum": 10})");
  for (const std::string_view good : {"-2", "0", "9", "9.0", "-0.00", "-1"}) {
    EXPECT_TRUE(schema.takes(good)) << good;
  }
  for (const std::string_view bad : {"-3", "10", "10.0", "1.5", "9.01", "01", "\"1\""}) {
    EXPECT_FALSE(schema.takes(bad)) << bad;
  }
}

TEST(JsonSchema, multiples_are_exact_decimals) {
  const Schema schema(R"({"multipleOf": 0.01, "type": "number", "minimum": 0.05})");
  for (const std::string_view good : {"0.07", "1", "1.10", "12345678901234567890.25"}) {
    EXPECT_TRUE(schema.takes(good)) << good;
  }
  for (const std::string_view bad : {"0.075", "0.04", "-1"}) EXPECT_FALSE(schema.takes(bad));
}

TEST(JsonSchema, whole_multiples_of_a_fraction_are_found_however_large) {
  const Schema schema(R"({"type": "integer", "multipleOf": 0.123456789})");
  EXPECT_TRUE(schema.takes("123456789"));
  EXPECT_FALSE(schema.takes("123456788"));
  EXPECT_FALSE(schema.takes("1" + std::string(308, '0')));
}

TEST(JsonSchema, properties_come_in_any_order_with_what_they_need) {
  const Schema schema(R"({
    "type": "object", "required": ["a"], "additionalProperties": {"type": "null"},
    "properties": {"a": {"type": "boolean"}, "b": {"const": 1}, "c": {"const": 2}},
    "dependentRequired": {"b": ["c"]}, "maxProperties": 3})");
  EXPECT_TRUE(schema.takes(R"({"c":2,"b":1,"a":true})"));
  EXPECT_TRUE(schema.takes(R"({"x":null,"a":false,"y":null})"));
  EXPECT_FALSE(schema.takes(R"({"a":true,"b":1})"));
  EXPECT_FALSE(schema.takes(R"({"x":null,"y":null,"z":null})"));
  EXPECT_FALSE(schema.takes(R"({"a":true,"x":null,"x":null})"));
  EXPECT_FALSE(schema.takes(R"({"x":null,"y":null,"b":1,"a":true,"c":2})"));
}

TEST(JsonSchema, what_several_schemas_say_of_a_property_holds_at_once) {
  const Schema schema(R"({
    "allOf": [{"properties": {"ab": {"minLength": 2}}},
              {"patternProperties": {"^a": {"type": "string", "maxLength": 3}}}],
    "type": "object"})");
  EXPECT_TRUE(schema.takes(R"({"ab":"xy","ac":"","b":[1,{"c":null}]})"));
  EXPECT_FALSE(schema.takes(R"({"ab":"x"})"));
  EXPECT_FALSE(schema.takes(R"({"ac":1})"));
}

TEST(JsonSchema, one_of_means_exactly_one) {
  const Schema schema(R"({"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}], "type": "integer"})");
  for (const std::string_view good : {"3", "-10", "9", "25.0"}) EXPECT_TRUE(schema.takes(good));
  for (const std::string_view bad : {"15", "0", "7", "-30"}) EXPECT_FALSE(schema.takes(bad));
  const Schema objects(
      R"({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})");
  EXPECT_TRUE(objects.takes(R"({"a":1})"));
  EXPECT_TRUE(objects.takes(R"({"x":0,"b":1})"));
  EXPECT_FALSE(objects.takes(R"({"a":1,"b":1})"));
  EXPECT_FALSE(objects.takes("{}"));
}

TEST(JsonSchema, unevaluated_properties_are_those_that_no_branch_took) {
  const Schema schema(R"({
    "type": "object", "unevaluatedProperties": false, "properties": {"kind": {}},
    "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
              {"properties": {"b": {"const": 2}}, "required": ["b"]}]})");
  EXPECT_TRUE(schema.takes(R"({"b":2,"kind":[],"a":1})"));
  EXPECT_TRUE(schema.takes(R"({"a":1})"));
  EXPECT_FALSE(schema.takes(R"({"a":1,"b":3})"));
  EXPECT_FALSE(schema.takes(R"({"a":1,"c":3})"));
}

TEST(JsonSchema, arrays_count_what_they_contain_and_what_repeats) {
  const Schema contains(R"({"type": "array", "contains": {"type": "null"}, "maxContains": 2})");
  EXPECT_TRUE(contains.takes("[1,null,null]"));
  EXPECT_FALSE(contains.takes("[1]"));
  EXPECT_FALSE(contains.takes("[null,null,null]"));
  const Schema unique(R"({"type": "array", "uniqueItems": true,
                          "items": {"type": ["string", "number", "null"]}})");
  EXPECT_TRUE(unique.takes(R"(["1",1,2,null,"a","b",1.5])"));
  EXPECT_FALSE(unique.takes(R"([1,2,1.0])"));
  EXPECT_FALSE(unique.takes(R"(["a","\u0061"])"));
  EXPECT_FALSE(unique.takes("[null,null]"));
}

TEST(JsonSchema, items_that_differ_are_compared_as_json_whatever_they_are) {
  const Schema any(R"({"type": "array", "uniqueItems": true})");
  EXPECT_TRUE(any.takes(R"([{"a":1,"b":[2]},{"a":1,"b":[2,2]},{"a":1},{},[],[1,[2]],[1,2],"a"])"));
  EXPECT_FALSE(any.takes(R"([{"a":1,"b":[2]},{"b":[2.0],"\u0061":1.0}])"));
  EXPECT_FALSE(any.takes(R"([[null,"x"],1,[null,"\u0078"]])"));
  EXPECT_FALSE(any.takes(R"([100,1e2])"));
  EXPECT_FALSE(any.takes(R"([1e2,1E+02])"));
  EXPECT_FALSE(any.takes(R"([0,-0.0])"));
  EXPECT_TRUE(any.takes(R"([1,true,"1",[1],[true],{"a":1},{"a":true},1e2,1e3])"));
  const Schema places(R"({"type": "array", "uniqueItems": true, "minItems": 2,
                          "prefixItems": [{}, {"const": {"a": 1}}], "items": {"type": "null"}})");
  EXPECT_TRUE(places.takes(R"([{"a":2},{"a":1},null])"));
  EXPECT_FALSE(places.takes(R"([{"a":1},{"a":1}])"));
  EXPECT_FALSE(places.takes(R"([{"a":2},{"a":1},null,null])"));
  const Schema contains(R"({"type": "array", "uniqueItems": true, "contains": {"type": "object"},
                            "minContains": 2, "maxContains": 2})");
  EXPECT_TRUE(contains.takes(R"([{},1,{"a":{}}])"));
  EXPECT_FALSE(contains.takes(R"([{},1,{}])"));
  EXPECT_FALSE(contains.takes(R"([{},{"a":1},{"a":2}])"));
}

TEST(JsonSchema, what_could_only_become_what_is_there_already_is_not_begun) {
  const Schema pair(R"({"type": "array", "uniqueItems": true, "minItems": 2, "maxItems": 2,
    "items": {"type": "object", "additionalProperties": false, "required": ["id", "on"],
              "properties": {"id": {"enum": [1, 2]}, "on": {"const": true}}}})");
  EXPECT_EQ(pair.forced(), "[{\"");
  EXPECT_EQ(pair.forced_after(R"([{"on":true,"id":1})"), R"(,{")");
  EXPECT_EQ(pair.forced_after(R"([{"on":true,"id":1},{"i)"), R"(d":2)");
  EXPECT_TRUE(pair.takes(R"([{"on":true,"id":1},{"on":true,"id":2}])"));
  const Schema flags(R"({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}})");
  EXPECT_EQ(flags.forced_after("[true,false"), "]");
  EXPECT_EQ(Schema(R"({"type": "array", "uniqueItems": true, "minItems": 3,
                       "items": {"type": "boolean"}})")
                .error(),
            "the schema or grammar is unsatisfiable: no text matches it");
  // An array of its own type that needs two different items, while only one exists.
  EXPECT_EQ(Schema(R"({"$defs": {"n": {"anyOf": [{"const": 1}, {"type": "array",
    "uniqueItems": true, "minItems": 2, "maxItems": 2, "items": {"$ref": "#/$defs/n"}}]}},
    "type": "array", "uniqueItems": true, "minItems": 2, "items": {"$ref": "#/$defs/n"}})")
                .error(),
            "the schema or grammar is unsatisfiable: no text matches it");
}

TEST(JsonSchema, items_that_must_not_all_differ_repeat_before_the_array_ends) {
  const Schema any(R"({"type": "array", "not": {"uniqueItems": true}})");
  EXPECT_TRUE(any.takes(R"([{"a":1},2,{"a":1.0}])"));
  EXPECT_FALSE(any.takes(R"([{"a":1},2,{"a":2}])"));
  EXPECT_FALSE(any.takes("[]"));
  const Schema two(R"({"type": "array", "maxItems": 2, "not": {"uniqueItems": true}})");
  EXPECT_EQ(two.forced_after(R"(["ab",)"), R"("ab"])");
  // Exponents beyond any number type: the second item equals the first, however it is written.
  EXPECT_TRUE(two.takes("[19.62e333333333333333333333,19.620E+0333333333333333333333]"));
  EXPECT_TRUE(two.takes("[-0.05e-333333333333333333333,-0.05e-333333333333333333333]"));
  EXPECT_FALSE(two.takes("[1962e333333333333333333333,1962e333333333333333333334]"));
  const Schema places(R"({"type": "array", "not": {"uniqueItems": true}, "items": false,
                          "prefixItems": [{"enum": [1, 2]}, {"enum": ["a", 2]}]})");
  EXPECT_EQ(places.forced(), "[2");
  EXPECT_EQ(places.forced_after("[2.0,"), "2");
  EXPECT_TRUE(places.takes("[2.0,2]"));
  EXPECT_FALSE(places.takes(R"([2,"a"])"));
}

TEST(JsonSchema, a_schema_may_refer_to_itself_further_in) {
  const Schema schema(R"({"$defs": {"tree": {"type": "object", "required": ["v"],
    "additionalProperties": false, "properties": {"v": {"type": "integer"},
    "next": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}}, "$ref": "#/$defs/tree"})");
  EXPECT_TRUE(schema.takes(R"({"v":1,"next":[{"v":2},{"next":[],"v":3}]})"));
  EXPECT_FALSE(schema.takes(R"({"v":1,"next":[{}]})"));
}

TEST(JsonSchema, long_keys_are_known_before_they_are_asked_for) {
  const Schema schema(R"({"type": "object", "additionalProperties": false,
    "required": ["a rather long name"], "properties": {"a rather long name": {"type": "string"}}})");
  EXPECT_EQ(schema.forced(), R"({"a rather long name":")");
}

TEST(JsonSchema, what_must_not_hold_of_all_properties_fails_of_some) {
  const Schema pattern(R"({"type": "object", "maxProperties": 2,
                           "not": {"patternProperties": {"^a": {"type": "null"}}}})");
  EXPECT_TRUE(pattern.takes(R"({"ab":1})"));
  EXPECT_TRUE(pattern.takes(R"({"b":null,"a":[]})"));
  EXPECT_FALSE(pattern.takes(R"({"ab":null,"b":1})"));
  EXPECT_FALSE(pattern.takes("{}"));
  const Schema names(R"({"type": "object", "not": {"propertyNames": {"maxLength": 1}}})");
  EXPECT_TRUE(names.takes(R"({"a":1,"ab":1})"));
  EXPECT_FALSE(names.takes(R"({"a":1,"b":1})"));
  const Schema others(R"({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {}},
                          "not": {"properties": {"a": {}}, "additionalProperties": {"type": "null"}}})");
  EXPECT_TRUE(others.takes(R"({"a":1,"b":1})"));
  EXPECT_TRUE(others.takes(R"({"b":null,"c":1})"));
  EXPECT_FALSE(others.takes(R"({"b":null,"a":1,"c":null})"));
}

TEST(JsonSchema, two_of_two_properties_may_be_what_is_needed_of_some) {
  const Schema schema(R"({"type": "object", "additionalProperties": false, "maxProperties": 2,
    "properties": {"a": {}, "b": {}, "c": {}},
    "allOf": [{"not": {"patternProperties": {"a|b": {"type": "null"}}}},
              {"not": {"patternProperties": {"b|c": {"type": "boolean"}}}}]})");
  EXPECT_TRUE(schema.takes(R"({"b":1})"));
  EXPECT_TRUE(schema.takes(R"({"a":1,"c":1})"));
  EXPECT_TRUE(schema.takes(R"({"b":true,"c":null})"));
  EXPECT_FALSE(schema.takes(R"({"b":true})"));
  EXPECT_FALSE(schema.takes(R"({"a":null,"c":1})"));
}

TEST(JsonSchema, an_object_or_an_array_may_be_excluded) {
  const Schema schema(
      R"({"type": ["array", "object"], "not": {"enum": [[1, "a"], {"k": [null]}]}})");
  for (const std::string_view good : {"[]", "[1]", R"([1,"b"])", R"([1,"a",1])", "{}",
                                      R"({"k":[]})", R"({"k":[null],"l":1})", R"({"l":[null]})"}) {
    EXPECT_TRUE(schema.takes(good)) << good;
  }
  for (const std::string_view bad : {R"([1.0,"a"])", R"({"k":[null]})"}) {
    EXPECT_FALSE(schema.takes(bad)) << bad;
  }
}

TEST(JsonSchema, one_of_many_that_overlap_is_kept) {
  std::string schemas;
  for (int i = 0; i < 40; ++i) {
    schemas +=
        fmt::format(R"({}{{"properties": {{"p{}": {{"type": "null"}}}}, "required": ["p{}"]}})",
                    i == 0 ? "" : ",", i, i);
  }
  const Schema schema(fmt::format(R"({{"type": "object", "oneOf": [{}]}})", schemas));
  EXPECT_TRUE(schema.takes(R"({"p7":null,"x":1})"));
  EXPECT_TRUE(schema.takes(R"({"p7":null,"p8":1})"));
  EXPECT_FALSE(schema.takes(R"({"p7":null,"p8":null})"));
  EXPECT_FALSE(schema.takes(R"({"p7":1})"));
}

TEST(JsonSchema, unsupported_keywords_are_rejected_with_their_path) {
  const auto error = [](std::string_view schema) { return Schema(schema).error(); };
  EXPECT_EQ(error(R"({"items": {"pattern": "(a)\\1"}})"),
            "#/items/pattern: the regular expression has a back reference at character 5, which is "
            "not supported");
  EXPECT_EQ(error(R"({"$ref": "http://example.com/x"})"),
            "#/$ref: http://example.com/x is not in this schema; expected a part of it");
  EXPECT_EQ(error(R"({"not": {"uniqueItems": true}, "contains": {"type": "null"}})"),
            "#: negated uniqueItems is only supported without contains and with at most 16 schemas "
            "in prefixItems");
  EXPECT_EQ(error(R"({"$schema": "https://example.com/of-our-own"})"),
            "#/$schema: https://example.com/of-our-own is not known; expected draft 4, 6, 7, "
            "2019-09 or 2020-12");
  EXPECT_EQ(error(R"({"type": "strin"})"),
            "#/type: expected null, boolean, integer, number, string, array, object or several");
  EXPECT_EQ(error("false"), "the schema or grammar is unsatisfiable: no text matches it");
}

// Hostile schemas must be rejected, because an ignored schema would leave answers unconstrained.
TEST(JsonSchema, hostile_schemas_meet_a_limit_and_never_go_unconstrained) {
  const auto nested = [](std::string_view open, std::string_view close, size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += open;
    text += "true";
    for (size_t i = 0; i < n; ++i) text += close;
    return text;
  };
  EXPECT_NE(Schema(nested(R"({"not":)", "}", 60'000)).error(), "");
  EXPECT_NE(Schema(R"({"$ref": "#"})").error(), "");
  EXPECT_NE(Schema(R"({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"$ref": "#"}}})").error(),
            "");
  EXPECT_NE(Schema(fmt::format(R"({{"pattern": "{}a{}"}})", std::string(60'000, '('),
                               std::string(60'000, ')')))
                .error(),
            "");
  EXPECT_NE(Schema(std::string(10'000'000, ' ')).error(), "");
  EXPECT_FALSE(
      Schema(R"({"pattern": "((a{1000}){1000}b){99999}x|(?=.{9000}y)(a|aa)*"})").takes("\"b\""));
  EXPECT_TRUE(Schema(R"({"maxItems": 18446744073709551616, "type": "array"})").takes("[1]"));
  EXPECT_TRUE(Schema(R"({"pattern": "^(a+)+$", "type": "string"})").takes("\"aaaaaaaaaaaaaaaa\""));
  std::string overlapping = R"({"oneOf": [)";
  for (int i = 0; i < 40; ++i) {
    overlapping += fmt::format(R"({}{{"properties": {{"a{}": {{}}, "b": {{"minimum": {}}}}}}})",
                               i == 0 ? "" : ",", i, i);
  }
  EXPECT_FALSE(Schema(overlapping + "]}").takes("{}")) << "it is valid under all of them";
}

TEST(JsonSchema, joining_schemas_counts_as_steps_of_work) {
  std::string properties, all;
  for (int i = 0; i < 30; ++i) properties += fmt::format(R"({}"p{}": {{}})", i ? "," : "", i);
  for (int i = 0; i < 120; ++i) {
    all += fmt::format(R"({}{{"properties": {{{}}}}})", i ? "," : "", properties);
  }
  bool is_out_of_work = false;
  SchemaOptions options;
  options.limits.max_work = 850'000;  // the names alone take 600,000
  options.limits.is_out_of_work = &is_out_of_work;
  EXPECT_FALSE(compile_json_schema("{\"allOf\": [" + all + "]}", options));
  EXPECT_TRUE(is_out_of_work);
  options.limits.max_work = 2'000'000;
  EXPECT_TRUE(compile_json_schema("{\"allOf\": [" + all + "]}", options));
}

TEST(JsonSchema, a_long_chain_of_references_is_refused) {
  for (const std::string_view keyword : {"$ref", "not", "allOf", "then", "dependentSchemas"}) {
    const auto chain = [&](int n) {
      std::string all;
      for (int i = 0; i < n; ++i) {
        const std::string next = fmt::format(R"("$ref": "#/$defs/a{}")", i + 1);
        const std::string inner = keyword == "$ref"    ? next
                                  : keyword == "not"   ? fmt::format(R"("not": {{{}}})", next)
                                  : keyword == "allOf" ? fmt::format(R"("allOf": [{{{}}}])", next)
                                  : keyword == "then"
                                      ? fmt::format(R"("if": true, "then": {{{}}})", next)
                                      : fmt::format(R"("dependentSchemas": {{"x": {{{}}}}})", next);
        all += fmt::format(R"("a{}": {{{}}}, )", i, inner);
      }
      return fmt::format(R"({{"$ref": "#/$defs/a0", "$defs": {{{}"a{}": {{"type": "string"}}}}}})",
                         all, n);
    };
    EXPECT_EQ(Schema(chain(40)).error(), "") << keyword;
    EXPECT_NE(Schema(chain(20'000)).error(), "") << keyword;
  }
}

}  // namespace
}  // namespace kvik::constrain
