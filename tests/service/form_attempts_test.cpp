#include <gtest/gtest.h>

#include <string>

#include "service/forms/form_compiler.h"
#include "support/tiny_service.h"

// FormCompiler::try_compile(): what is compiled at once, and for whom.
namespace kvik {
namespace {

AnswerForm schema_form(std::string schema) {
  return {.kind = AnswerForm::Kind::kJsonSchema,
          .text = std::move(schema),
          .style = {JsonStyle::Whitespace::kCompact, JsonStyle::Language::kFull}};
}

class FormAttempts : public testing::Test {
 protected:
  const AnswerForm short_form = schema_form(R"({"enum": ["cat", "dog"]})");
  ServiceRig rig;
  FormCompiler compiler{rig.tokenizer()};
};

// 256 ways to name four properties.
constexpr const char* kLongSchema = R"({"allOf": [
  {"anyOf": [{"required": ["a"]}, {"required": ["b"]}, {"required": ["c"]}, {"required": ["d"]}]},
  {"anyOf": [{"required": ["e"]}, {"required": ["f"]}, {"required": ["g"]}, {"required": ["h"]}]},
  {"anyOf": [{"required": ["i"]}, {"required": ["j"]}, {"required": ["k"]}, {"required": ["l"]}]},
  {"anyOf": [{"required": ["m"]}, {"required": ["n"]}, {"required": ["o"]}, {"required": ["p"]}]}
]})";

TEST_F(FormAttempts, what_takes_long_is_not_compiled_by_an_attempt) {
  EXPECT_TRUE(compiler.try_compile(short_form));
  EXPECT_TRUE(compiler.knows(short_form));
  EXPECT_FALSE(compiler.try_compile(schema_form(kLongSchema)));
  EXPECT_FALSE(compiler.knows(schema_form(kLongSchema)));
  EXPECT_TRUE(compiler.compile(schema_form(kLongSchema)).has_value());
  EXPECT_TRUE(compiler.try_compile(schema_form(kLongSchema)));
}

TEST_F(FormAttempts, an_attempt_leaves_no_keyword_out) {
  AnswerForm relaxed = schema_form(kLongSchema);
  relaxed.strictness = AnswerForm::Strictness::kRelaxed;
  EXPECT_FALSE(compiler.try_compile(relaxed));
  const auto compiled = compiler.compile(relaxed);
  ASSERT_TRUE(compiled.has_value());
  EXPECT_TRUE(compiled->relaxed.empty());
}

TEST_F(FormAttempts, attempts_are_for_tenants_that_have_not_used_up_their_time) {
  const FormCompiler::Owner owner{.tenant = "ann", .salt = ""};
  bool is_used_up = false;
  for (int i = 0; i < 10'000 && !is_used_up; ++i) {
    const AnswerForm form = schema_form(R"({"const": )" + std::to_string(i) + "}");
    is_used_up = !compiler.try_compile(form, owner);
  }
  EXPECT_TRUE(is_used_up);
  EXPECT_TRUE(compiler.try_compile(short_form, {.tenant = "bob", .salt = ""}));
}

}  // namespace
}  // namespace kvik
