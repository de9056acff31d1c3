// The default language of a schema: the texts that a program would write for its values.

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "constrain/grammar_matcher.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {
namespace {

std::shared_ptr<const VocabularyTrie> bytes_vocabulary() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<VocabularyTrie>(std::move(tokens));
}

class Canonical {
 public:
  explicit Canonical(std::string_view schema, Whitespace whitespace = {}) {
    auto made = compile_json_schema(
        schema,
        {.limits = {}, .whitespace = whitespace, .language = SchemaOptions::Language::kCanonical});
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    compiled_ = CompiledGrammar::make(std::move(made->grammar), bytes_vocabulary());
  }

  bool takes(std::string_view text) const {
    GrammarMatcher matcher = compiled_->start();
    return *matcher.accept_bytes(text) == text.size() && *matcher.is_complete();
  }
  // Returns the text that is forced after `text`.
  std::string forced_after(std::string_view text) const {
    GrammarMatcher matcher = compiled_->start();
    EXPECT_EQ(*matcher.accept_bytes(text), text.size());
    return *matcher.forced_bytes(1000);
  }
  std::string next_after(std::string_view text) const {
    GrammarMatcher matcher = compiled_->start();
    EXPECT_EQ(*matcher.accept_bytes(text), text.size());
    return *matcher.next_bytes();
  }
  CompiledGrammar& compiled() const { return *compiled_; }

 private:
  std::shared_ptr<CompiledGrammar> compiled_;
};

TEST(CanonicalSchema, an_object_with_properties_has_no_others) {
  const Canonical schema(
      R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name", "age"]})");
  EXPECT_TRUE(schema.takes(R"({"name":"Bob","age":5})"));
  EXPECT_FALSE(schema.takes(R"({"name":"Bob","age":5,"bytes":12})"));
  EXPECT_EQ(schema.forced_after(""), R"({"name":")");
}

TEST(CanonicalSchema, closed_objects_are_joined_before_they_are_closed) {
  const Canonical all(
      R"({"allOf": [{"properties": {"a": {"type": "null"}}}, {"$ref": "#/$defs/b"}],
          "type": "object", "$defs": {"b": {"properties": {"b": {"type": "null"}}}}})");
  EXPECT_TRUE(all.takes(R"({"a":null,"b":null})"));
  EXPECT_FALSE(all.takes(R"({"c":null})"));
  const Canonical any(
      R"({"type": "object", "properties": {"kind": {"type": "null"}}, "anyOf": [
          {"properties": {"a": {"type": "null"}}, "required": ["a"]},
          {"properties": {"b": {"type": "null"}}, "required": ["b"]}]})");
  EXPECT_TRUE(any.takes(R"({"kind":null,"a":null})"));
  EXPECT_TRUE(any.takes(R"({"kind":null,"b":null})"));
  EXPECT_FALSE(any.takes(R"({"kind":null,"c":null})"));
  const Canonical when(
      R"({"type": "object", "properties": {"a": {"type": "boolean"}},
          "if": {"properties": {"a": {"const": true}}},
          "then": {"properties": {"b": {"type": "null"}}, "required": ["b"]}})");
  EXPECT_TRUE(when.takes(R"({"a":true,"b":null})"));
  EXPECT_TRUE(when.takes(R"({"a":false})"));
  EXPECT_FALSE(when.takes(R"({"a":false,"c":null})"));
}

TEST(CanonicalSchema, an_object_stays_open_where_the_schema_says_so) {
  EXPECT_TRUE(Canonical(R"({"type": "object"})").takes(R"({"any":{"thing":[1]}})"));
  EXPECT_TRUE(Canonical("{}").takes(R"({"any":1})"));
  EXPECT_FALSE(Canonical(R"({"type": "object", "properties": {}})").takes(R"({"any":1})"));
  const std::string_view with_a = R"({"type": "object", "properties": {"a": {"type": "null"}})";
  const auto open = [&](const std::string& more) { return std::string(with_a) + more + "}"; };
  EXPECT_TRUE(Canonical(open(R"(, "additionalProperties": true)")).takes(R"({"b":[]})"));
  EXPECT_TRUE(Canonical(open(R"(, "unevaluatedProperties": true)")).takes(R"({"b":[]})"));
  const Canonical typed(open(R"(, "additionalProperties": {"type": "integer"})"));
  EXPECT_TRUE(typed.takes(R"({"a":null,"b":1})"));
  EXPECT_FALSE(typed.takes(R"({"b":"1"})"));
  const Canonical patterns(open(R"(, "patternProperties": {"^x-": {"type": "integer"}})"));
  EXPECT_TRUE(patterns.takes(R"({"a":null,"x-b":1})"));
  EXPECT_FALSE(patterns.takes(R"({"b":1})"));
  const Canonical names(R"({"type": "object", "propertyNames": {"pattern": "^x"}})");
  EXPECT_TRUE(names.takes(R"({"x":1})"));
}

TEST(CanonicalSchema, names_that_are_required_but_not_declared_may_come) {
  const Canonical required(
      R"({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["b"]})");
  EXPECT_TRUE(required.takes(R"({"a":null,"b":1})"));
  const Canonical needed(
      R"({"type": "object", "properties": {"a": {"type": "null"}}, "dependentRequired": {"a": ["b"]}})");
  EXPECT_FALSE(needed.takes(R"({"a":null})"));
  EXPECT_TRUE(needed.takes("{}"));
  const Canonical constant(
      R"({"type": "object", "properties": {"a": {}}, "enum": [{"z": 1, "a": 2}]})");
  EXPECT_TRUE(constant.takes(R"({"a":2,"z":1})"));
}

TEST(CanonicalSchema, names_needed_by_a_negated_schema_are_allowed) {
  // A value matches only one of the two if the property listed by the other has another type.
  const Canonical either(
      R"({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}},
                    {"type": "object", "properties": {"b": {"type": "integer"}}}]})");
  EXPECT_TRUE(either.takes(R"({"a":1,"b":"x"})"));
  EXPECT_TRUE(either.takes(R"({"b":1,"a":"x"})"));
  EXPECT_FALSE(either.takes(R"({"a":1})"));
  EXPECT_FALSE(either.takes(R"({"a":1,"b":"x","c":1})"));
  const Canonical joined(
      R"({"type": "object", "properties": {"k": {"type": "null"}}, "required": ["k"],
          "oneOf": [{"properties": {"a": {"type": "integer"}}},
                    {"properties": {"b": {"type": "integer"}}}]})");
  EXPECT_TRUE(joined.takes(R"({"k":null,"a":1,"b":"x"})"));
  const Canonical other(
      R"({"type": "object", "properties": {"a": {"type": "integer"}},
          "not": {"properties": {"b": {"type": "integer"}}}})");
  EXPECT_TRUE(other.takes(R"({"a":1,"b":null})"));
  EXPECT_FALSE(other.takes(R"({"a":1})"));
  const Canonical property(
      R"({"type": "object", "allOf": [
          {"properties": {"p": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
          {"properties": {"p": {"not": {"properties": {"b": {"type": "integer"}}}}}}]})");
  EXPECT_TRUE(property.takes(R"({"p":{"a":1,"b":null}})"));
  // The first of the two objects needs properties that it does not list; the second must not have
  // such properties.
  const Canonical one(
      R"({"oneOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"type": "object", "properties": {"b": {"type": "integer"}}}]})");
  EXPECT_TRUE(one.takes(R"({"a":1,"b":"x"})"));
  EXPECT_TRUE(one.takes(R"({"b":1})"));
  EXPECT_FALSE(one.takes(R"({"b":1,"a":"x"})")) << "{\"b\":1} is enough";
}

TEST(CanonicalSchema, objects_that_differ_by_what_they_require_have_no_names_of_each_other) {
  const Canonical kinds(
      R"({"oneOf": [
          {"type": "object", "properties": {"kind": {"const": "x"}, "a": {"type": "integer"}}},
          {"type": "object", "properties": {"kind": {"const": "y"}, "b": {"type": "integer"}}}]})");
  EXPECT_TRUE(kinds.takes(R"({"kind":"x","a":1})"));
  EXPECT_TRUE(kinds.takes(R"({"kind":"y","b":1})"));
  EXPECT_FALSE(kinds.takes(R"({"kind":"x","a":1,"b":"x"})"));
  EXPECT_FALSE(kinds.takes(R"({"a":1,"b":"x"})"));
}

TEST(CanonicalSchema, a_minimum_that_no_closed_object_meets_leaves_it_open) {
  const Canonical schema(
      R"({"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 2})");
  EXPECT_TRUE(schema.takes(R"({"a":null,"b":1})"));
}

TEST(CanonicalSchema, keys_come_in_the_order_of_the_schema) {
  const Canonical schema(
      R"({"type": "object", "properties": {"reasoning": {"type": "null"}, "note": {"type": "null"},
          "answer": {"type": "null"}, "by": {"type": "null"}}, "required": ["reasoning", "answer"]})");
  EXPECT_TRUE(schema.takes(R"({"reasoning":null,"note":null,"answer":null,"by":null})"));
  EXPECT_TRUE(schema.takes(R"({"reasoning":null,"answer":null})"));
  EXPECT_FALSE(schema.takes(R"({"answer":null,"reasoning":null})"));
  EXPECT_FALSE(schema.takes(R"({"note":null,"reasoning":null,"answer":null})"));
  EXPECT_FALSE(schema.takes(R"({"reasoning":null,"answer":null,"note":null})"));
  EXPECT_EQ(schema.next_after(R"({"reasoning":null)"), ",");
  EXPECT_EQ(schema.next_after(R"({"reasoning":null,"answer":null,"by":null)"), "}");
}

TEST(CanonicalSchema, other_keys_come_after_those_of_the_schema) {
  const Canonical schema(
      R"({"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "null"}},
          "required": ["a"], "additionalProperties": {"type": "integer"}})");
  EXPECT_TRUE(schema.takes(R"({"b":null,"a":null,"c":1,"d":2})"));
  EXPECT_FALSE(schema.takes(R"({"c":1,"a":null})"));
  EXPECT_FALSE(schema.takes(R"({"a":null,"c":1,"b":null})"));
}

TEST(CanonicalSchema, order_never_leads_where_no_object_can_be_completed) {
  const Canonical least(
      R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"},
          "c": {"type": "null"}}, "minProperties": 2})");
  EXPECT_TRUE(least.takes(R"({"a":null,"c":null})"));
  EXPECT_EQ(least.next_after(R"({")"), R"(\ab)");
  const Canonical needs(
      R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"},
          "c": {"type": "null"}}, "dependentRequired": {"c": ["a"]}})");
  EXPECT_TRUE(needs.takes(R"({"a":null,"c":null})"));
  EXPECT_TRUE(needs.takes(R"({"b":null})"));
  EXPECT_EQ(needs.next_after(R"({"b":null)"), "}");
  const Canonical most(
      R"({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"},
          "c": {"type": "null"}}, "required": ["c"], "maxProperties": 2})");
  EXPECT_TRUE(most.takes(R"({"b":null,"c":null})"));
  EXPECT_EQ(most.forced_after(R"({"a":null,)"), R"("c":null})");
}

TEST(CanonicalSchema, integers_have_no_fraction_exponent_or_minus_zero) {
  const Canonical schema(R"({"type": "integer"})");
  for (const std::string_view good : {"0", "7", "-12", "9223372036854775807"}) {
    EXPECT_TRUE(schema.takes(good)) << good;
  }
  for (const std::string_view bad : {"3.0", "3.00000", "-0", "1e3", "01", "12345678901234567890"}) {
    EXPECT_FALSE(schema.takes(bad)) << bad;
  }
  const Canonical bounded(R"({"type": "integer", "minimum": 1, "maximum": 20})");
  EXPECT_TRUE(bounded.takes("20"));
  EXPECT_FALSE(bounded.takes("20.0"));
  EXPECT_FALSE(Canonical(R"({"type": "number", "multipleOf": 5})").takes("15.0"));
  EXPECT_TRUE(Canonical(R"({"type": "integer", "minimum": 100000000000000000000})")
                  .takes("100000000000000000001"));
}

TEST(CanonicalSchema, constants_are_written_as_the_schema_writes_them) {
  const Canonical values(R"({"type": "integer", "enum": [3.0, -0, 5]})");
  for (const std::string_view good : {"3.0", "-0", "5"}) EXPECT_TRUE(values.takes(good)) << good;
  for (const std::string_view bad : {"3", "3.00", "0", "5.0"}) {
    EXPECT_FALSE(values.takes(bad)) << bad;
  }
  EXPECT_TRUE(Canonical(R"({"const": 1e2})").takes("100"));
  EXPECT_TRUE(Canonical(R"({"allOf": [{"const": 1.0}, {"const": 1}]})").takes("1"));
}

TEST(CanonicalSchema, numbers_have_a_bound_on_digits) {
  for (const std::string_view text : {R"({"type": "number"})", "{}"}) {
    const Canonical schema(text);
    for (const std::string_view good : {"0.30000000000000004", "-0.5", "12345678901234567", "1e10",
                                        "1.7976931348623157E+289", "5"}) {
      EXPECT_TRUE(schema.takes(good)) << good;
    }
    for (const std::string_view bad :
         {"5.00000000000000000", "123456789012345678", "-0", "-0.0", "1e400", "1e1000"}) {
      EXPECT_FALSE(schema.takes(bad)) << bad;
    }
  }
  const Canonical cents(R"({"type": "number", "minimum": 0, "multipleOf": 0.01})");
  EXPECT_TRUE(cents.takes("19.99"));
  EXPECT_FALSE(cents.takes("19.9900000000000000000"));
  EXPECT_TRUE(Canonical(R"({"type": "number", "multipleOf": 0.123456789})").takes("0.123456789"));
}

TEST(CanonicalSchema, one_blank_at_most_stands_after_colons_and_commas) {
  const Canonical schema(
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array",
          "items": {"type": "string"}}}, "required": ["a", "b"]})",
      Whitespace::spaced());
  for (const std::string_view good :
       {R"({"a": 1, "b": ["x", "y"]})", R"({"a":1,"b":["x","y"]})", R"({"a":1, "b": []})"}) {
    EXPECT_TRUE(schema.takes(good)) << good;
  }
  for (const std::string_view bad :
       {R"({"a":  1,"b":[]})", R"({ "a":1,"b":[]})", R"({"a" :1,"b":[]})", R"({"a":1 ,"b":[]})",
        R"({"a":1,"b":[ ]})", R"({"a":1,"b":[ "x"]})", R"({"a":1,"b":[] })", " {}",
        "{\"a\":\n1,\"b\":[]}", "{\"a\":\t1,\"b\":[]}", R"({"a":1,  "b":[]})"}) {
    EXPECT_FALSE(schema.takes(bad)) << bad;
  }
  EXPECT_EQ(schema.next_after(R"({"a":)"), " -0123456789");
  EXPECT_EQ(schema.next_after(R"({"a": )"), "-0123456789");
}

// Whichever allowed bytes are drawn, an object can be completed: there are no dead ends.
TEST(CanonicalSchema, random_objects_come_to_their_end) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 300; ++round) {
    std::string properties, required, needs;
    const int n = 1 + below(5);
    for (int i = 0; i < n; ++i) {
      const std::string name(1, static_cast<char>('a' + (i * 3 + round) % 5));
      properties += (i > 0 ? ", \"" : "\"") + name + R"(": {"type": "null"})";
      if (below(3) == 0) required += (required.empty() ? "\"" : ", \"") + name + "\"";
      if (below(3) != 0) continue;
      const std::string other(1, static_cast<char>('a' + (below(n) * 3 + round) % 5));
      needs += (needs.empty() ? "\"" : ", \"") + name + "\": [\"" + other + "\"]";
    }
    const std::string schema =
        R"({"type": "object", "properties": {)" + properties + R"(}, "required": [)" + required +
        R"(], "minProperties": )" + std::to_string(below(n + 1)) + R"(, "maxProperties": )" +
        std::to_string(n) + R"(, "dependentRequired": {)" + needs + "}" +
        (below(4) == 0 ? R"(, "patternProperties": {"^x$": {"const": 1}})" : "") + "}";
    const Canonical made(schema, Whitespace::spaced());
    for (int text = 0; text < 10; ++text) {
      std::string said;
      while (said.size() < 200) {
        const std::string next = made.next_after(said);
        if (next.empty()) break;
        // Escapes are other spellings of names and irrelevant for dead ends.
        const char byte = next[static_cast<size_t>(below(static_cast<int>(next.size())))];
        if (byte != '\\') said += byte;
      }
      EXPECT_TRUE(made.takes(said)) << schema << " " << said;
    }
  }
}

TEST(CanonicalSchema, numbers_that_must_differ_always_have_a_way_on) {
  const Canonical made(R"({"type": "array", "uniqueItems": true, "items": {"type": "number"}})",
                       Whitespace::spaced());
  EXPECT_TRUE(made.takes("[3e33, 3, 3.5]"));
  EXPECT_FALSE(made.takes("[3, 3e33]")) << "an exponent has no room for the digit that would tell";
  std::mt19937 random(7);
  for (int walk = 0; walk < 20; ++walk) {
    std::string said = "[";
    while (said.size() < 120) {
      std::string next = made.next_after(said);
      ASSERT_FALSE(next.empty()) << said;
      std::erase_if(next, [](char byte) { return !std::string_view("3e-.,").contains(byte); });
      said += next.empty() ? '3' : next[random() % next.size()];
    }
  }
}

TEST(CanonicalSchema, the_full_language_is_unchanged) {
  const auto made = compile_json_schema(
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "null"}}})");
  ASSERT_TRUE(made);
  const auto compiled = CompiledGrammar::make(made->grammar, bytes_vocabulary());
  GrammarMatcher matcher = compiled->start();
  const std::string_view text = R"({"x":[1e400],"b":null,"a":-0.00})";
  EXPECT_EQ(*matcher.accept_bytes(text), text.size());
  EXPECT_TRUE(*matcher.is_complete());
}

}  // namespace
}  // namespace kvik::constrain
