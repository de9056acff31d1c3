#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/structured_output/grammar_compiler.h"
#include "support/tiny_service.h"

// GrammarCompiler::try_compile(): which grammars it compiles at once, and for which tenants.
namespace kvik {
namespace {

StructuredOutput schema_form(std::string schema) {
  return {.kind = StructuredOutput::Kind::kJsonSchema,
          .text = std::move(schema),
          .style = {JsonStyle::Whitespace::kCompact, JsonStyle::Language::kFull}};
}

class TryCompile : public testing::Test {
 protected:
  const StructuredOutput short_form = schema_form(R"({"enum": ["cat", "dog"]})");
  ServiceRig rig;
  GrammarCompiler compiler{rig.tokenizer()};
};

// A schema of 4^4 = 256 alternatives, which takes long to compile.
constexpr const char* kLongSchema = R"({"allOf": [
  {"anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}, {"required": ["d"]}]},
  {"anyOf": [{"required": ["e"]}, {"required": ["f"]}, {"required": ["g"]}, {"required": ["h"]}]},
  {"anyOf": [{"required": ["i"]}, {"required": ["j"]}, {"required": ["k"]}, {"required": ["l"]}]},
  {"anyOf": [{"required": ["m"]}, {"required": ["n"]}, {"required": ["o"]}, {"required": ["p"]}]}
]})";

TEST_F(TryCompile, slow_grammars_are_not_compiled_by_try_compile) {
  EXPECT_EQ(compiler.try_compile(short_form), true);
  EXPECT_TRUE(compiler.knows(short_form));
  EXPECT_EQ(compiler.try_compile(schema_form(kLongSchema)), false);
  EXPECT_FALSE(compiler.knows(schema_form(kLongSchema)));
  EXPECT_TRUE(compiler.compile(schema_form(kLongSchema)).has_value());
  EXPECT_EQ(compiler.try_compile(schema_form(kLongSchema)), true);
}

TEST_F(TryCompile, try_compile_never_relaxes_a_schema) {
  StructuredOutput relaxed = schema_form(kLongSchema);
  relaxed.strictness = StructuredOutput::Strictness::kRelaxed;
  EXPECT_EQ(compiler.try_compile(relaxed), false);
  const auto compiled = compiler.compile(relaxed);
  ASSERT_TRUE(compiled.has_value());
  EXPECT_TRUE(compiled->relaxed.empty());
}

TEST_F(TryCompile, try_compile_needs_unused_time_of_the_tenant) {
  const GrammarCompiler::Owner owner{.tenant = "ann", .salt = ""};
  bool is_used_up = false;
  for (int i = 0; i < 10'000 && !is_used_up; ++i) {
    const StructuredOutput form = schema_form(R"({"const": )" + std::to_string(i) + "}");
    is_used_up = compiler.try_compile(form, owner) == false;
  }
  EXPECT_TRUE(is_used_up);
  EXPECT_EQ(compiler.try_compile(short_form, {.tenant = "bob", .salt = ""}), true);
}

// Such errors are final: compile() on the low-priority thread would return the same ones.
TEST_F(TryCompile, invalid_constraints_are_rejected_by_try_compile) {
  using Kind = StructuredOutput::Kind;
  const std::vector<StructuredOutput> refused = {
      schema_form(R"({"enum": []})"),
      schema_form(R"({"type": "strin"})"),
      schema_form(R"({"$ref": "https://example.com/other.json"})"),
      schema_form(R"({"minimum": 3, "maximum": 2, "type": "number"})"),
      {.kind = Kind::kRegex, .text = "(a", .param = "regex"},
      {.kind = Kind::kGbnf, .text = "root ::= root \"a\"", .param = "grammar"},
      {.kind = Kind::kLark, .text = "start: nothing", .param = "grammar"},
  };
  for (const StructuredOutput& form : refused) {
    SCOPED_TRACE(form.text);
    const auto attempted = compiler.try_compile(form);
    const auto compiled = compiler.compile(form);
    ASSERT_FALSE(attempted.has_value());
    ASSERT_FALSE(compiled.has_value());
    EXPECT_EQ(attempted.error().code, compiled.error().code);
    EXPECT_EQ(attempted.error().message, compiled.error().message);
    EXPECT_EQ(attempted.error().param, compiled.error().param);
  }
}

// The check that the items have enough distinct values runs last and takes further steps.
TEST_F(TryCompile, try_compile_defers_a_slow_check_of_unique_items) {
  std::string schema = R"({"uniqueItems": true, "minItems": 3, "items": {"enum": [0)";
  for (int i = 1; i < 3000; ++i) schema += ", " + std::to_string(i);
  EXPECT_EQ(compiler.try_compile(schema_form(schema + "]}}")), false);
}

}  // namespace
}  // namespace kvik
