#include "service/sampling/sampling_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

using Sequences = std::vector<std::vector<TokenId>>;

// Tokens are bytes, and "ab".
const ToyTokenizer& toy() {
  static const ToyTokenizer tokenizer("");
  return tokenizer;
}

constexpr TokenId kAb = kWord;

TEST(SamplingTexts, banned_texts_become_tokens_with_and_without_a_leading_space) {
  SamplingParams params;
  ASSERT_TRUE(add_tokens(toy(), {.banned = {"abc", " x"}}, params).has_value());
  EXPECT_EQ(params.banned, (Sequences{{kAb, 'c'}, {' ', kAb, 'c'}, {' ', 'x'}, {'x'}}));
}

TEST(SamplingTexts, a_bias_of_a_text_goes_to_all_its_tokens) {
  SamplingParams params;
  params.logit_bias = {{1, 1.0f}};
  ASSERT_TRUE(add_tokens(toy(), {.biases = {{"abc", -2.0f}}}, params).has_value());
  const std::vector<std::pair<TokenId, float>> expected = {{1, 1.0f}, {kAb, -2.0f}, {'c', -2.0f}};
  EXPECT_EQ(params.logit_bias, expected);
  const auto many = add_tokens(toy(), {.biases = {{std::string(2000, 'x'), 1.0f}}}, params);
  ASSERT_FALSE(many.has_value());
  EXPECT_EQ(many.error().param, "logit_bias");
}

TEST(SamplingTexts, a_breaker_is_a_token_that_contains_it_or_the_tokens_that_spell_it) {
  const DryBreakers breakers = find_dry_breakers(toy(), {"b", "bc", "aab"});
  EXPECT_THAT(breakers.at('b'),
              testing::UnorderedElementsAre(std::vector<TokenId>{}, std::vector<TokenId>{'c'}));
  EXPECT_THAT(breakers.at(kAb),
              testing::UnorderedElementsAre(std::vector<TokenId>{}, std::vector<TokenId>{'c'}));
  EXPECT_THAT(breakers.at('a'), testing::ElementsAre(std::vector<TokenId>{kAb}));
  EXPECT_FALSE(breakers.contains('c'));
}

TEST(SamplingTexts, breakers_are_found_once_for_each_list) {
  DryBreakerCache cache(toy());
  const auto by_default = cache.find(std::nullopt);
  EXPECT_TRUE(by_default->contains('\n'));
  EXPECT_TRUE(by_default->contains('"'));
  EXPECT_EQ(cache.find(std::nullopt), by_default);
  const auto other = cache.find(std::vector<std::string>{"x"});
  EXPECT_NE(other, by_default);
  EXPECT_TRUE(other->contains('x'));
  EXPECT_FALSE(other->contains('\n'));
  EXPECT_TRUE(cache.find(std::vector<std::string>{})->empty());
  for (char c = 'a'; c < 'a' + 8; ++c) cache.find(std::vector<std::string>{std::string(1, c)});
  const auto again = cache.find(std::nullopt);  // was forgotten
  EXPECT_NE(again, by_default);
  EXPECT_EQ(*again, *by_default);
}

}  // namespace
}  // namespace kvik
