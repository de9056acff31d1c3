#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "engine/sample/sampler.h"

// Compares the sampler's draws with those of its plain definition, which uses the C library's
// exp().
namespace kvik {
namespace {

struct Weighted {
  TokenId id;
  float weight;
};

bool is_heavier(const Weighted& a, const Weighted& b) {
  return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
}

double sum_of(const std::vector<Weighted>& tokens) {
  double sum = 0;
  for (const Weighted& t : tokens) sum += t.weight;
  return sum;
}

TokenId plain_draw(const std::vector<float>& logits, const SamplingParams& p, uint64_t position) {
  float peak = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) {
    if (std::isfinite(logit)) peak = std::max(peak, logit);
  }
  std::vector<Weighted> tokens;
  for (TokenId id = 0; id < logits.size(); ++id) {
    if (!std::isfinite(logits[id])) continue;
    const float weight = std::exp((logits[id] - peak) / p.temperature);
    if (weight > 0 && weight >= p.min_p) tokens.push_back({id, weight});
  }
  if (p.top_k > 0 && p.top_k < tokens.size()) {
    std::ranges::sort(tokens, is_heavier);
    tokens.resize(p.top_k);
  }
  if (p.top_p < 1) {
    const double limit = p.top_p * sum_of(tokens);
    std::ranges::sort(tokens, is_heavier);
    double sum = 0;
    size_t n = 0;
    while (n < tokens.size() && sum < limit) sum += tokens[n++].weight;
    tokens.resize(n);
  }
  double left = uniform_draw(p.seed, p.choice_index, position) * sum_of(tokens);
  for (const Weighted& t : tokens) {
    left -= t.weight;
    if (left < 0) return t.id;
  }
  return tokens.back().id;
}

// Returns logits of one of several shapes: normal, as of language models, with ties, and flat.
std::vector<float> random_logits(std::mt19937& random, uint32_t n_vocab) {
  std::vector<float> logits(n_vocab);
  std::normal_distribution<float> normal(0, std::uniform_real_distribution<float>(0.1f, 6)(random));
  const uint32_t shape = random() % 4;
  for (float& logit : logits) {
    logit = normal(random);
    if (shape == 1) logit = std::round(logit * 4) / 4;
    if (shape == 2) logit = std::round(logit / 4);
  }
  if (shape == 3) {  // a few tokens are far above the others
    for (int i = 0; i < 20; ++i) logits[random() % n_vocab] += 12;
  }
  if (random() % 4 == 0) {
    constexpr float kOdd[] = {std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity(), -3e38f};
    for (int i = 0; i < 50; ++i) logits[random() % n_vocab] = kOdd[random() % 4];
  }
  return logits;
}

SamplingParams random_params(std::mt19937& random) {
  constexpr uint32_t kTopK[] = {0, 0, 1, 2, 15, 40, 5000};
  constexpr float kTopP[] = {1, 1, 0.05f, 0.5f, 0.95f, 0.999f};
  constexpr float kMinP[] = {0, 0, 0, 1e-30f, 0.01f, 0.1f, 1};
  constexpr float kTemperatures[] = {0.01f, 0.3f, 0.8f, 1, 1.5f, 100};
  return {.temperature = kTemperatures[random() % std::size(kTemperatures)],
          .top_k = kTopK[random() % std::size(kTopK)],
          .top_p = kTopP[random() % std::size(kTopP)],
          .min_p = kMinP[random() % std::size(kMinP)],
          .seed = random()};
}

TEST(SamplerDraws, are_those_of_the_plain_definition) {
  const uint32_t n_draws = std::getenv("KVIK_TEST_LONG") ? 1'000'000 : 3'000;
  constexpr uint32_t kDrawsPerLogits = 50;
  std::mt19937 random(7);
  for (uint32_t n = 0; n < n_draws;) {
    const uint32_t n_vocab = random() % 8 == 0 ? 32'003 : 1 + random() % 4000;
    const std::vector<float> logits = random_logits(random, n_vocab);
    Sampler sampler(n_vocab);
    for (uint32_t i = 0; i < kDrawsPerLogits; ++i, ++n) {
      const SamplingParams params = random_params(random);
      const auto token = sampler.sample({.logits = logits,
                                         .params = params,
                                         .history = {.counts = {}},
                                         .masked = {},
                                         .position = n});
      if (!token) {
        ASSERT_TRUE(std::ranges::none_of(logits, [](float x) { return std::isfinite(x); }));
        continue;
      }
      ASSERT_EQ(*token, plain_draw(logits, params, n))
          << n_vocab << " tokens, temperature " << params.temperature << ", top_k " << params.top_k
          << ", top_p " << params.top_p << ", min_p " << params.min_p << ", seed " << params.seed;
    }
  }
}

}  // namespace
}  // namespace kvik
