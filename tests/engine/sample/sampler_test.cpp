#include "engine/sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

namespace kvik {
namespace {

using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::optional<TokenId> pick(const std::vector<float>& logits, const SamplingParams& params,
                            uint64_t position = 0, const TokenCounts& counts = {},
                            const std::vector<TokenId>& masked = {}) {
  Sampler sampler(static_cast<uint32_t>(logits.size()));
  return sampler.sample({.logits = logits,
                         .params = params,
                         .history = {.counts = counts},
                         .masked = masked,
                         .position = position});
}

// Returns how often each token is drawn at n positions.
std::map<TokenId, int> draws(const std::vector<float>& logits, const SamplingParams& params,
                             int n = 20000, const TokenCounts& counts = {},
                             const std::vector<TokenId>& masked = {}) {
  Sampler sampler(static_cast<uint32_t>(logits.size()));
  std::map<TokenId, int> drawn;
  for (int position = 0; position < n; ++position) {
    const auto token = sampler.sample({.logits = logits,
                                       .params = params,
                                       .history = {.counts = counts},
                                       .masked = masked,
                                       .position = static_cast<uint64_t>(position)});
    EXPECT_TRUE(token.has_value());
    if (token) ++drawn[*token];
  }
  return drawn;
}

std::set<TokenId> drawn_ids(const std::vector<float>& logits, const SamplingParams& params,
                            const std::vector<TokenId>& masked = {}) {
  std::set<TokenId> ids;
  for (const auto& [id, n] : draws(logits, params, 20000, {}, masked)) ids.insert(id);
  return ids;
}

// Returns the logits of these probabilities.
std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// Checks that each count is within five standard deviations of its expected value.
void expect_distribution(const std::map<TokenId, int>& drawn, const std::vector<double>& expected) {
  int n = 0;
  for (const auto& [id, count] : drawn) n += count;
  for (TokenId id = 0; id < expected.size(); ++id) {
    const double p = expected[id];
    const auto it = drawn.find(id);
    const double count = it == drawn.end() ? 0 : it->second;
    EXPECT_NEAR(count, n * p, 5 * std::sqrt(n * p * (1 - p))) << "token " << id;
  }
}

TEST(Sampler, temperature_zero_takes_the_most_likely) {
  EXPECT_EQ(pick({0.1f, 3.0f, -2.0f, 2.9f}, {.temperature = 0}), 1u);
}

TEST(Sampler, ties_go_to_the_lower_id) {
  EXPECT_EQ(pick({1, 5, 5, 5}, {.temperature = 0}), 1u);
  EXPECT_EQ(drawn_ids({1, 5, 5, 5}, {.top_k = 1}), std::set<TokenId>({1}));
  EXPECT_EQ(drawn_ids({1, 5, 5, 5}, {.top_k = 2}), std::set<TokenId>({1, 2}));
  EXPECT_EQ(drawn_ids({1, 5, 5, 5}, {.top_p = 0.3f}), std::set<TokenId>({1}));
}

TEST(Sampler, draws_follow_the_softmax) {
  const std::vector<double> p = {0.5, 0.25, 0.15, 0.07, 0.03};
  expect_distribution(draws(logits_of(p), {}), p);
}

TEST(Sampler, temperature_bends_the_distribution) {
  // p^(1/T), normalized: for T = 2, the square roots.
  expect_distribution(draws(logits_of({0.64, 0.32, 0.04}), {.temperature = 2}),
                      {0.8 / 1.5656854, 0.5656854 / 1.5656854, 0.2 / 1.5656854});
  expect_distribution(draws(logits_of({0.64, 0.32, 0.04}), {.temperature = 0.5f}),
                      {0.4096 / 0.5136, 0.1024 / 0.5136, 0.0016 / 0.5136});
}

TEST(Sampler, a_tiny_temperature_is_greedy) {
  EXPECT_EQ(drawn_ids({0.1f, 3.0f, -2.0f, 2.9f}, {.temperature = 1e-45f}), std::set<TokenId>({1}));
}

TEST(Sampler, top_k_leaves_k_and_their_ratios) {
  expect_distribution(draws(logits_of({0.1, 0.4, 0.2, 0.3}), {.top_k = 2}),
                      {0, 0.4 / 0.7, 0, 0.3 / 0.7});
}

TEST(Sampler, a_top_k_past_the_vocabulary_changes_nothing) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(draws(logits, {}), draws(logits, {.top_k = 4}));
  EXPECT_EQ(draws(logits, {}), draws(logits, {.top_k = UINT32_MAX}));
}

TEST(Sampler, top_p_leaves_the_fewest_that_reach_p) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.35f}), std::set<TokenId>({1}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.65f}), std::set<TokenId>({1, 3}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.75f}), std::set<TokenId>({1, 2, 3}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 0.95f}), std::set<TokenId>({0, 1, 2, 3}));
  EXPECT_EQ(drawn_ids(logits, {.top_p = 1e-9f}), std::set<TokenId>({1}));
  expect_distribution(draws(logits, {.top_p = 0.65f}), {0, 0.4 / 0.7, 0, 0.3 / 0.7});
}

TEST(Sampler, a_nucleus_wider_than_what_is_sorted_first_is_exact) {
  // The first 500 of 1,000 equal tokens make up 0.5.
  EXPECT_EQ(drawn_ids(std::vector<float>(1000, 1.0f), {.top_p = 0.5f}).size(), 500u);
  const auto ids = drawn_ids(std::vector<float>(1000, 1.0f), {.top_p = 0.125f});
  EXPECT_EQ(ids.size(), 125u);
  EXPECT_EQ(*ids.rbegin(), 124u);
}

TEST(Sampler, min_p_leaves_what_is_near_the_most_likely) {
  const auto logits = logits_of({0.1, 0.4, 0.2, 0.3});
  EXPECT_EQ(drawn_ids(logits, {.min_p = 0.2f}), std::set<TokenId>({0, 1, 2, 3}));
  EXPECT_EQ(drawn_ids(logits, {.min_p = 0.4f}), std::set<TokenId>({1, 2, 3}));
  EXPECT_EQ(drawn_ids(logits, {.min_p = 0.7f}), std::set<TokenId>({1, 3}));
  EXPECT_EQ(drawn_ids(logits, {.min_p = 1.0f}), std::set<TokenId>({1}));
}

TEST(Sampler, top_p_counts_what_top_k_left) {
  // Two tokens remain, and the first has 4/7 of the probability.
  EXPECT_EQ(drawn_ids(logits_of({0.1, 0.4, 0.2, 0.3}), {.top_k = 2, .top_p = 0.5f}),
            std::set<TokenId>({1}));
}

TEST(Sampler, a_bias_moves_logits_before_all_else) {
  const std::vector<float> logits = {1, 2, 3, 4};
  SamplingParams params{.temperature = 0};
  params.logit_bias = {{0, 3.5f}, {3, -100.0f}};
  EXPECT_EQ(pick(logits, params), 0u);
  params.temperature = 1;
  params.logit_bias = {{0, -100.0f}, {1, -100.0f}, {2, -100.0f}};
  EXPECT_EQ(drawn_ids(logits, params), std::set<TokenId>({3}));
}

TEST(Sampler, a_masked_token_is_never_picked_whatever_its_bias) {
  SamplingParams params;
  params.logit_bias = {{1, 100.0f}};
  EXPECT_EQ(drawn_ids({1, 2, 1}, params, {1}), std::set<TokenId>({0, 2}));
  params.temperature = 0;
  EXPECT_EQ(pick({1, 9, 2}, params, 0, {}, {1}), 2u);
  EXPECT_EQ(pick({1, 9, 2}, params, 0, {}, {0, 1, 2}), std::nullopt);
}

TEST(Sampler, a_repetition_penalty_makes_seen_tokens_less_likely_on_either_side_of_zero) {
  TokenCounts counts;
  counts.add_prompt(0);
  counts.add_answer(2);
  const SamplingParams params{.temperature = 0, .repetition_penalty = 2};
  EXPECT_EQ(pick({4, 3, -1}, params, 0, counts), 1u);       // 4 / 2 < 3
  EXPECT_EQ(pick({-9, -1.5f, -1}, params, 0, counts), 1u);  // -1 · 2 < -1.5
  EXPECT_EQ(pick({7, 3, -1}, params, 0, counts), 0u);
}

TEST(Sampler, a_repetition_penalty_counts_a_token_once) {
  TokenCounts counts;
  for (int i = 0; i < 5; ++i) counts.add_answer(0);
  for (int i = 0; i < 5; ++i) counts.add_prompt(0);
  EXPECT_EQ(pick({4, 1.9f}, {.temperature = 0, .repetition_penalty = 2}, 0, counts), 0u);
}

TEST(Sampler, presence_is_taken_once_and_frequency_each_time_and_neither_for_the_prompt) {
  TokenCounts counts;
  for (int i = 0; i < 3; ++i) counts.add_answer(0);
  for (int i = 0; i < 9; ++i) counts.add_prompt(1);
  EXPECT_EQ(pick({4, 2.9f}, {.temperature = 0, .presence_penalty = 1}, 0, counts), 0u);
  EXPECT_EQ(pick({4, 3.1f}, {.temperature = 0, .presence_penalty = 1}, 0, counts), 1u);
  EXPECT_EQ(pick({4, 0.9f}, {.temperature = 0, .frequency_penalty = 1}, 0, counts), 0u);
  EXPECT_EQ(pick({4, 1.1f}, {.temperature = 0, .frequency_penalty = 1}, 0, counts), 1u);
  EXPECT_EQ(pick({4, 5}, {.temperature = 0, .presence_penalty = -2}, 0, counts), 0u);
}

TEST(Sampler, a_draw_depends_on_its_key_and_not_on_what_was_drawn_before) {
  const auto logits = logits_of(std::vector<double>(64, 1.0 / 64));
  const SamplingParams params{.seed = 7, .choice_index = 3};
  Sampler sampler(64);
  std::vector<std::optional<TokenId>> forwards(100), backwards(100);
  const auto at = [&](uint64_t position) {
    return sampler.sample({.logits = logits,
                           .params = params,
                           .history = {.counts = {}},
                           .masked = {},
                           .position = position});
  };
  for (size_t i = 0; i < 100; ++i) forwards[i] = at(i);
  for (size_t i = 100; i-- > 0;) backwards[i] = at(i);
  EXPECT_EQ(forwards, backwards);
}

TEST(Sampler, seeds_choices_and_positions_draw_each_their_own) {
  std::set<double> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint32_t choice = 0; choice < 20; ++choice) {
      for (uint64_t position = 0; position < 20; ++position) {
        const double u = uniform_draw(seed, choice, position);
        EXPECT_GE(u, 0.0);
        EXPECT_LT(u, 1.0);
        seen.insert(u);
      }
    }
  }
  EXPECT_EQ(seen.size(), 8000u);
}

TEST(Sampler, draws_are_uniform_along_seeds_choices_and_positions) {
  constexpr int kBins = 50, kDraws = 50000;
  const auto chi_squared = [](const auto& draw) {
    std::vector<int> bins(kBins);
    for (int i = 0; i < kDraws; ++i) ++bins[static_cast<size_t>(draw(i) * kBins)];
    double sum = 0;
    for (const int n : bins) sum += std::pow(n - kDraws / kBins, 2) / (kDraws / kBins);
    return sum;
  };
  // With 49 degrees of freedom the value is below 94 with a probability of 0.9999.
  EXPECT_LT(chi_squared([](int i) { return uniform_draw(i, 0, 0); }), 94);
  EXPECT_LT(chi_squared([](int i) { return uniform_draw(0, i, 0); }), 94);
  EXPECT_LT(chi_squared([](int i) { return uniform_draw(0, 0, i); }), 94);
  EXPECT_LT(chi_squared([](int i) { return uniform_draw(i, i, i); }), 94);
}

TEST(Sampler, no_finite_logit_is_no_token) {
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingParams params{.temperature = temperature};
    EXPECT_EQ(pick({kNan, kNan}, params), std::nullopt);
    EXPECT_EQ(pick({kInf, kInf}, params), std::nullopt);
    EXPECT_EQ(pick({-kInf, -kInf}, params), std::nullopt);
    EXPECT_EQ(pick({kNan, kInf, -kInf}, params), std::nullopt);
  }
}

TEST(Sampler, logits_that_are_no_numbers_are_never_picked_beside_those_that_are) {
  const std::vector<float> logits = {kNan, 1, kInf, 2, -kInf, kNan};
  EXPECT_EQ(pick(logits, {.temperature = 0}), 3u);
  for (const auto& params :
       {SamplingParams{}, SamplingParams{.top_k = 3}, SamplingParams{.top_p = 0.99f}}) {
    EXPECT_EQ(drawn_ids(logits, params), std::set<TokenId>({1, 3}));
  }
}

TEST(Sampler, a_penalty_that_overflows_a_logit_leaves_the_others_their_shares) {
  TokenCounts counts;
  counts.add_prompt(0);
  const SamplingParams params{.repetition_penalty = 1e-44f};
  expect_distribution(draws({3, 1, 1}, params, 20000, counts), {0, 0.5, 0.5});
}

}  // namespace
}  // namespace kvik
