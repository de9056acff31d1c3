#include "engine/sample/logit_adjuster.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "engine/sample/sampler.h"

namespace kvik {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Returns DRY's penalties of tokens 0 to 9.
std::vector<float> dry_penalties(const DryParams& dry, const std::vector<TokenId>& tokens) {
  std::vector<float> logits(10, 0);
  LogitAdjuster().penalize_repetitions(dry, tokens, logits);
  for (float& logit : logits) logit = 0 - logit;
  return logits;
}

DryParams with_breakers(DryParams dry, DryBreakers breakers) {
  dry.breakers = std::make_shared<const DryBreakers>(std::move(breakers));
  return dry;
}

TEST(Dry, penalizes_the_tokens_that_would_continue_a_repetition) {
  // The last tokens 1 2 3 were followed by 4, and their last two by 5, too.
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  EXPECT_EQ(dry_penalties({.multiplier = 0.5f, .base = 2, .allowed_length = 1}, tokens),
            (std::vector<float>{0, 0, 0, 0, 2, 1, 0, 0, 0, 0}));
  EXPECT_EQ(dry_penalties({.multiplier = 0.5f, .base = 2, .allowed_length = 3}, tokens),
            (std::vector<float>{0, 0, 0, 0, 0.5f, 0, 0, 0, 0, 0}));
  EXPECT_EQ(dry_penalties({.multiplier = 0.5f, .base = 2, .allowed_length = 4}, tokens),
            std::vector<float>(10, 0));
}

TEST(Dry, searches_only_the_newest_tokens) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 1, 2, 3};
  DryParams dry{.multiplier = 1, .base = 2, .allowed_length = 1};
  EXPECT_EQ(dry_penalties(dry, tokens)[4], 4);
  dry.last_n = 5;  // 3 4 1 2 3
  EXPECT_EQ(dry_penalties(dry, tokens)[4], 1);
  dry.last_n = 4;
  EXPECT_EQ(dry_penalties(dry, tokens)[4], 0);
  dry.last_n = 0;
  EXPECT_EQ(dry_penalties(dry, tokens)[4], 0);
}

TEST(Dry, breakers_end_repetitions_and_are_not_penalized) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 1, 2, 3};
  const DryParams dry{.multiplier = 1, .base = 2, .allowed_length = 1};
  EXPECT_EQ(dry_penalties(with_breakers(dry, {{1, {{}}}}), tokens)[4], 2);      // 2 3 remain
  EXPECT_EQ(dry_penalties(with_breakers(dry, {{1, {{2}}}}), tokens)[4], 1);     // 3 remains
  EXPECT_EQ(dry_penalties(with_breakers(dry, {{1, {{2, 3}}}}), tokens)[4], 0);  // none does
  EXPECT_EQ(dry_penalties(with_breakers(dry, {{1, {{3}}}}), tokens)[4], 4);     // no breaker
  EXPECT_EQ(dry_penalties(with_breakers(dry, {{4, {{}}}}), tokens)[4], 0);      // the token itself
  EXPECT_EQ(dry_penalties(with_breakers(dry, {{4, {{8}}}}), tokens)[4], 4);     // only its head
}

TEST(Dry, a_long_repetition_has_a_finite_penalty) {
  const std::vector<TokenId> tokens(5000, 7);
  const float penalty = dry_penalties({.multiplier = 100, .base = 100}, tokens)[7];
  EXPECT_TRUE(std::isfinite(penalty));
  EXPECT_GT(penalty, 1e30f);
}

TEST(Penalties, count_the_newest_tokens_of_prompt_and_answer) {
  const std::vector<TokenId> tokens = {0, 1, 1, 2};  // the prompt is 0 1 1
  TokenCounts counts;
  for (const TokenId id : {0, 1, 1}) counts.add_prompt(static_cast<TokenId>(id));
  counts.add_answer(2);
  SamplingParams p{.repetition_penalty = 2, .presence_penalty = 0.5f, .frequency_penalty = 1};
  const auto penalized = [&] {
    std::vector<float> logits = {8, 8, 8, 8};
    LogitAdjuster().penalize_tokens(p, {.counts = counts, .tokens = tokens, .n_prompt = 3}, logits);
    return logits;
  };
  EXPECT_EQ(penalized(), (std::vector<float>{4, 4, 2.5f, 8}));  // presence: of the answer alone
  p.penalty_last_n = 3;
  EXPECT_EQ(penalized(), (std::vector<float>{8, 1.5f, 2.5f, 8}));
  p.penalty_last_n = 100;
  EXPECT_EQ(penalized(), (std::vector<float>{2.5f, 1.5f, 2.5f, 8}));
  p.penalty_last_n = 0;
  EXPECT_EQ(penalized(), (std::vector<float>{8, 8, 8, 8}));
}

TEST(Banned, the_last_token_of_a_sequence_is_never_picked_after_the_others) {
  const std::vector<float> logits = {1, 2, 3};
  SamplingParams p{.temperature = 0};
  p.banned = {{0, 1, 2}, {1, 1}};
  const auto after = [&](const std::vector<TokenId>& tokens, size_t n_prompt) {
    Sampler sampler(3);
    return sampler.sample({.logits = logits,
                           .params = p,
                           .history = {.counts = {}, .tokens = tokens, .n_prompt = n_prompt},
                           .masked = {},
                           .position = 0});
  };
  EXPECT_EQ(after({0, 1}, 0), 0u);  // neither 2 nor 1
  EXPECT_EQ(after({2, 1}, 0), 2u);
  EXPECT_EQ(after({0, 1}, 1), 2u);  // the sequence began in the prompt
  EXPECT_EQ(after({0, 2, 0, 1}, 2), 0u);
  p.banned = {{2}};
  EXPECT_EQ(after({}, 0), 1u);
  p.typical_p = 0.9f;
  EXPECT_NE(after({}, 0), 2u);
}

TEST(Banned, restored_logits_are_those_before_any_ban) {
  LogitAdjuster adjuster;
  std::vector<float> logits = {1, 2, 3};
  SamplingParams p;
  p.banned = {{1}, {1}, {2}};
  const TokenHistory history{.counts = {}};
  adjuster.ban(p, history, logits);
  EXPECT_EQ(logits, (std::vector<float>{1, kNever, kNever}));
  adjuster.restore(logits);
  EXPECT_EQ(logits, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace kvik
