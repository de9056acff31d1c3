#include "engine/sample/ordered_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "engine/sample/natural_log.h"
#include "engine/sample/sampler.h"
#include "support/plain_samplers.h"

// Compares the samplers with plain formulas in doubles.
namespace kvik {
namespace {

using Kind = SamplerKind;

constexpr uint64_t kDraws = 20000;

std::optional<TokenId> pick_one(const std::vector<float>& logits, const SamplingParams& params,
                                uint64_t position = 0, const std::vector<TokenId>& tokens = {}) {
  Sampler sampler(static_cast<uint32_t>(logits.size()));
  return sampler.sample({.logits = logits,
                         .params = params,
                         .history = {.counts = {}, .tokens = tokens},
                         .masked = {},
                         .position = position});
}

// Returns how often each token is drawn at kDraws positions.
std::map<TokenId, double> shares(const std::vector<float>& logits, const SamplingParams& params,
                                 const std::vector<TokenId>& tokens = {}) {
  Sampler sampler(static_cast<uint32_t>(logits.size()));
  std::map<TokenId, double> drawn;
  for (uint64_t position = 0; position < kDraws; ++position) {
    const auto token = sampler.sample({.logits = logits,
                                       .params = params,
                                       .history = {.counts = {}, .tokens = tokens},
                                       .masked = {},
                                       .position = position});
    EXPECT_TRUE(token.has_value());
    if (token) drawn[*token] += 1.0 / kDraws;
  }
  return drawn;
}

// Checks that each share is within five standard deviations of its probability, and that tokens of
// probability 0 are never drawn.
void expect_shares(const std::map<TokenId, double>& drawn, const std::vector<double>& expected) {
  for (TokenId id = 0; id < expected.size(); ++id) {
    const auto it = drawn.find(id);
    const double share = it == drawn.end() ? 0 : it->second;
    if (expected[id] == 0) {
      EXPECT_EQ(share, 0) << "token " << id;
      continue;
    }
    EXPECT_NEAR(share, expected[id],
                1e-9 + 5 * std::sqrt(expected[id] * (1 - expected[id]) / kDraws))
        << "token " << id;
  }
}

std::vector<float> logs_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

std::vector<float> normal_logits(std::mt19937& random, uint32_t n, float deviation) {
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> logits(n);
  std::ranges::generate(logits, [&] { return normal(random); });
  return logits;
}

// Returns random parameters of every sampler, some of which are off.
SamplingParams random_samplers(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<float> values) {
    return *(values.begin() + random() % values.size());
  };
  SamplingParams p{
      .temperature = one_of({0, 0.3f, 0.8f, 1, 1.7f}),
      .top_k = static_cast<uint32_t>(one_of({0, 0, 3, 40})),
      .top_p = one_of({1, 1, 0.5f, 0.95f}),
      .min_p = one_of({0, 0, 0.02f, 0.2f}),
      .typical_p = one_of({1, 0, 0.3f, 0.9f}),
      .top_n_sigma = one_of({0, -1, 1, 2.5f}),
      .repetition_penalty = one_of({1, 1, 1.3f, 0.8f}),
      .presence_penalty = one_of({0, 0, 0.5f}),
      .frequency_penalty = one_of({0, 0, 0.7f, -0.3f}),
      .penalty_last_n = static_cast<uint32_t>(one_of({0, 5, 20, 1000})),
      .xtc = {.probability = one_of({0, 0, 1}), .threshold = one_of({0.05f, 0.2f, 0.6f})},
      .dynamic_temperature = {.range = one_of({0, 0, 0.5f, 2}),
                              .exponent = one_of({0, 0.7f, 1, 3})},
      .dry = {.multiplier = one_of({0, 0.8f}),
              .base = one_of({1, 1.75f}),
              .allowed_length = static_cast<uint32_t>(one_of({0, 1, 2})),
              .last_n = static_cast<uint32_t>(one_of({0, 12, 1000}))},
      .seed = random()};
  if (p.dry.multiplier > 0 && random() % 2 == 0) {
    p.dry.breakers =
        std::make_shared<const DryBreakers>(DryBreakers{{1, {{}}}, {2, {{3}, {3, 4}}}});
  }
  std::vector<Kind> order = {Kind::kPenalties, Kind::kDry,      Kind::kTopNSigma,
                             Kind::kTopK,      Kind::kTypicalP, Kind::kTopP,
                             Kind::kMinP,      Kind::kXtc,      Kind::kTemperature};
  if (random() % 2 == 0) {
    std::ranges::shuffle(order, random);
    order.resize(order.size() - random() % 4);
  }
  p.order = order;
  return p;
}

TEST(OrderedSampler, tokens_are_those_of_the_plain_formulas_in_any_order) {
  std::mt19937 random(3);
  int n_different = 0;
  constexpr int kCases = 6000;
  for (int n = 0; n < kCases; ++n) {
    const auto logits = normal_logits(random, 2 + random() % 300, n % 2 == 0 ? 1.0f : 4.0f);
    const SamplingParams params = random_samplers(random);
    std::vector<TokenId> tokens(random() % 60);
    const auto n_kinds = static_cast<uint32_t>(std::min<size_t>(logits.size(), 6));
    for (TokenId& token : tokens) token = random() % n_kinds;
    const auto position = static_cast<uint64_t>(n);
    const PlainSamplers plain(logits, params, tokens);
    const auto token = pick_one(logits, params, position, tokens);
    ASSERT_TRUE(token.has_value());
    ASSERT_TRUE(plain.has(*token)) << "case " << n;
    n_different += *token != plain.draw(uniform_draw(params.seed, 0, position));
  }
  // The formulas' sums differ by rounding.
  EXPECT_LE(n_different, 2);
}

TEST(OrderedSampler, all_tokens_equal_are_drawn_equally_or_cut_by_id) {
  const std::vector<float> logits(8, 1.5f);
  const std::vector<double> even(8, 1.0 / 8);
  expect_shares(shares(logits, {.top_n_sigma = 1}), even);
  expect_shares(shares(logits, {.xtc = {.probability = 1, .threshold = 0.3f}}), even);
  expect_shares(shares(logits, {.dynamic_temperature = {.range = 0.5f}}), even);
  expect_shares(shares(logits, {.mirostat = {.version = 1}}), even);
  expect_shares(shares(logits, {.mirostat = {.version = 2}}), even);
  expect_shares(shares(logits, {.typical_p = 0.5f}), {0.2, 0.2, 0.2, 0.2, 0.2, 0, 0, 0});
  // All are top choices; the last one stays.
  expect_shares(shares(logits, {.xtc = {.probability = 1, .threshold = 0.1f}}),
                {0, 0, 0, 0, 0, 0, 0, 1});
}

TEST(OrderedSampler, one_allowed_token_is_picked_by_every_sampler) {
  std::vector<float> logits(70, -std::numeric_limits<float>::infinity());
  logits[66] = -3;
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    SamplingParams params = random_samplers(random);
    params.mirostat.version = static_cast<uint32_t>(i % 3);
    EXPECT_EQ(pick_one(logits, params, static_cast<uint64_t>(i), {66, 66, 66, 66}), 66u);
  }
}

TEST(OrderedSampler, no_finite_logit_is_no_token) {
  const std::vector<float> logits = {std::numeric_limits<float>::quiet_NaN(),
                                     std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(pick_one(logits, {.typical_p = 0.5f}), std::nullopt);
  EXPECT_EQ(pick_one(logits, {.mirostat = {.version = 2}}), std::nullopt);
}

TEST(OrderedSampler, typical_p_prefers_tokens_of_the_expected_surprise) {
  // The entropy is 1.28 nats; the surprises are 0.69, 1.90, 2.30 and 2.30.
  const auto logits = logs_of({0.5, 0.15, 0.1, 0.25});
  // In order of their distance: 0.25 (0.18), 0.5 (0.51), 0.15, 0.1.
  expect_shares(shares(logits, {.typical_p = 0.2f}), {0, 0, 0, 1});
  expect_shares(shares(logits, {.typical_p = 0.7f}), {0.5 / 0.75, 0, 0, 0.25 / 0.75});
}

TEST(OrderedSampler, top_n_sigma_keeps_logits_near_the_largest) {
  // The mean is 2, the standard deviation √2.
  const std::vector<float> logits = {0, 1, 2, 3, 4};
  const auto kept = [&](float n) { return shares(logits, {.top_n_sigma = n}).size(); };
  EXPECT_EQ(kept(0.1f), 1u);
  EXPECT_EQ(kept(1), 2u);     // at least 2.59
  EXPECT_EQ(kept(1.5f), 3u);  // at least 1.88
  EXPECT_EQ(kept(3), 5u);
}

TEST(OrderedSampler, xtc_excludes_all_top_choices_but_the_last_with_its_probability) {
  const auto logits = logs_of({0.4, 0.3, 0.2, 0.1});
  const SamplingParams params{.xtc = {.probability = 0.25f, .threshold = 0.15f}};
  expect_shares(shares(logits, params), {0.75 * 0.4, 0.75 * 0.3, 0.75 * 0.2 + 0.25 * 0.2 / 0.3,
                                         0.75 * 0.1 + 0.25 * 0.1 / 0.3});
  // One top choice stays.
  expect_shares(shares(logits, {.xtc = {.probability = 1, .threshold = 0.35f}}),
                {0.4, 0.3, 0.2, 0.1});
}

TEST(OrderedSampler, dynamic_temperature_is_low_for_sure_tokens_and_high_for_open_ones) {
  const std::vector<double> sure = {0.97, 0.01, 0.01, 0.01};
  const SamplingParams params{.temperature = 1, .dynamic_temperature = {.range = 0.9f}};
  double entropy = 0;
  for (const double p : sure) entropy -= p * std::log(p);
  const double t = 0.1 + 1.8 * entropy / std::log(4);
  std::vector<double> expected;
  for (const double p : sure) expected.push_back(std::pow(p, 1 / t));
  const double sum = std::reduce(expected.begin(), expected.end());
  for (double& p : expected) p /= sum;
  expect_shares(shares(logs_of(sure), params), expected);
}

TEST(OrderedSampler, samplers_missing_from_the_order_are_off) {
  const auto logits = logs_of({0.4, 0.3, 0.2, 0.1});
  SamplingParams params{.temperature = 0, .top_k = 3, .top_p = 0.1f};
  params.order = {Kind::kTopK};
  expect_shares(shares(logits, params), {4 / 9.0, 3 / 9.0, 2 / 9.0, 0});
  params.order.emplace();
  expect_shares(shares(logits, params), {0.4, 0.3, 0.2, 0.1});
}

TEST(OrderedSampler, temperature_before_or_after_top_p_keeps_other_tokens) {
  const auto logits = logs_of({0.4, 0.3, 0.2, 0.1});
  SamplingParams params{.temperature = 100, .top_p = 0.6f};
  params.order = {Kind::kTopP, Kind::kTemperature};
  EXPECT_EQ(shares(logits, params).size(), 2u);
  params.order = {Kind::kTemperature, Kind::kTopP};
  EXPECT_EQ(shares(logits, params).size(), 3u);
}

TEST(OrderedSampler, tiny_temperatures_are_greedy) {
  for (const float temperature : {0.0f, 1e-45f, 1e-30f}) {
    EXPECT_EQ(pick_one({-5, 3, 2}, {.temperature = temperature, .top_n_sigma = 2}), 1u);
    EXPECT_EQ(pick_one({-5, 3, 2}, {.temperature = temperature, .mirostat = {.version = 2}}), 1u);
  }
}

TEST(OrderedSampler, greedy_after_xtc_is_the_least_likely_top_choice) {
  const SamplingParams params{.temperature = 0, .xtc = {.probability = 1, .threshold = 0.15f}};
  EXPECT_EQ(pick_one(logs_of({0.4, 0.3, 0.2, 0.1}), params), 2u);
}

TEST(OrderedSampler, mirostat_2_bounds_the_surprise_and_learns_from_it) {
  const auto logits = logs_of({0.5, 0.25, 0.125, 0.125});
  const SamplingParams params{.mirostat = {.version = 2, .tau = 1, .eta = 0.5f}};
  Sampler sampler(4);
  std::set<TokenId> drawn;
  for (uint64_t position = 0; position < 200; ++position) {
    float mu = 2;  // bits: the first two tokens
    const auto token = sampler.sample({.logits = logits,
                                       .params = params,
                                       .history = {.counts = {}},
                                       .masked = {},
                                       .position = position,
                                       .mirostat_mu = &mu});
    drawn.insert(*token);
    const double surprise = *token == 0 ? std::log2(1.5) : std::log2(3);
    EXPECT_NEAR(mu, 2 - 0.5 * (surprise - 1), 1e-5);
  }
  EXPECT_EQ(drawn, std::set<TokenId>({0, 1}));
}

TEST(OrderedSampler, mirostat_keeps_the_surprise_near_its_target) {
  std::mt19937 random(9);
  for (const uint32_t version : {1u, 2u}) {
    const SamplingParams params{.mirostat = {.version = version, .tau = 4, .eta = 0.1f}};
    Sampler sampler(2000);
    float mu = 8;
    double sum = 0;
    constexpr int kSteps = 1500;
    for (uint64_t position = 0; position < kSteps; ++position) {
      const auto logits = normal_logits(random, 2000, 2);
      const double log_sum = std::log(std::accumulate(
          logits.begin(), logits.end(), 0.0, [](double s, float x) { return s + std::exp(x); }));
      const auto token = sampler.sample({.logits = logits,
                                         .params = params,
                                         .history = {.counts = {}},
                                         .masked = {},
                                         .position = position,
                                         .mirostat_mu = &mu});
      if (position >= 100) sum += (log_sum - logits[*token]) / std::log(2);
    }
    // The state counts the surprise among the kept tokens, which is smaller.
    EXPECT_GT(sum / (kSteps - 100), 4) << version;
    EXPECT_LT(sum / (kSteps - 100), 8) << version;
  }
}

TEST(NaturalLog, is_that_of_the_c_library_within_a_few_units) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 20000; ++i) {
    const double x = i == 0 ? 1.0 : std::pow(10, exponent(random));
    const double expected = std::log(x);
    EXPECT_NEAR(natural_log(x), expected, 4e-16 * std::max(1.0, std::abs(expected))) << x;
  }
  EXPECT_EQ(natural_log(1), 0);
}

}  // namespace
}  // namespace kvik
