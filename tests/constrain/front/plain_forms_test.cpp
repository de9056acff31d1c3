#include "constrain/front/plain_forms.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/grammar_texts.h"

namespace kvik::constrain {
namespace {

TEST(PlainForms, an_expression_is_matched_as_a_whole) {
  auto grammar = regex_grammar("[ab]+|c(?!d).", {});
  ASSERT_TRUE(grammar.has_value());
  const GrammarTexts texts(*grammar);
  EXPECT_TRUE(texts.has("abba"));
  EXPECT_TRUE(texts.has("cc"));
  EXPECT_FALSE(texts.has("cd"));
  EXPECT_FALSE(texts.has("xab"));
  EXPECT_FALSE(regex_grammar("\xFF", {}).has_value());
  EXPECT_FALSE(regex_grammar("(a)\\1", {}).has_value());
  EXPECT_FALSE(regex_grammar("[]", {}).has_value()) << "no text at all";
}

TEST(Choice, is_one_of_its_texts) {
  const TextList texts = {"yes", "no", "yes, but", "\xC3\xA9"};
  auto grammar = choice_grammar(texts, {});
  ASSERT_TRUE(grammar.has_value());
  const GrammarTexts choice(*grammar);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_TRUE(choice.has(texts[i])) << texts[i];
  for (const char* text : {"", "y", "yes,", "yesno", "maybe"})
    EXPECT_FALSE(choice.has(text)) << text;
  EXPECT_FALSE(choice_grammar({"a", "\xFF"}, {}).has_value());
}

}  // namespace
}  // namespace kvik::constrain
