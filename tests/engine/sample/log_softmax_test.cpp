#include "engine/sample/log_softmax.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kvik {
namespace {

using testing::ElementsAre;

// Returns the logits of these probabilities.
std::vector<float> log_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

TEST(LogSoftmax, logprobs_are_the_log_softmax) {
  const auto logits = log_of({0.5, 0.25, 0.2, 0.05});
  EXPECT_NEAR(LogSoftmax(logits).of(0), std::log(0.5), 1e-6);
  EXPECT_NEAR(LogSoftmax(logits).of(3), std::log(0.05), 1e-6);
}

TEST(LogSoftmax, logprobs_of_all_tokens_add_up_to_one_whatever_the_offset) {
  for (const float offset : {-1e4f, 0.0f, 1e4f}) {
    std::vector<float> logits;
    for (int i = 0; i < 300; ++i) logits.push_back(offset + std::sin(static_cast<float>(i)) * 5);
    double sum = 0;
    for (const TokenLogprob& t : LogSoftmax(logits).top(300)) sum += std::exp(t.logprob);
    // Near 1e4 the spacing of floats is 1e-3, but a common shift cancels: only the rounding of each
    // logit counts.
    EXPECT_NEAR(sum, 1.0, 1e-5) << offset;
  }
}

TEST(LogSoftmax, top_logprobs_are_the_most_likely_first_and_ties_by_id) {
  const std::vector<float> logits = {1, 4, 2, 4, 3};
  std::vector<TokenId> ids;
  for (const TokenLogprob& t : LogSoftmax(logits).top(4)) {
    ids.push_back(t.id);
    EXPECT_EQ(t.logprob, LogSoftmax(logits).of(t.id));
  }
  EXPECT_THAT(ids, ElementsAre(1, 3, 4, 2));
  EXPECT_TRUE(LogSoftmax(logits).top(0).empty());
  EXPECT_EQ(LogSoftmax(logits).top(100).size(), 5u);
}

TEST(LogSoftmax, a_tokens_rank_is_its_place_among_the_most_likely) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {1, 4, kMasked, 2, 4, kMasked, 3};
  const auto top = LogSoftmax(logits).top(7);
  ASSERT_EQ(top.size(), 5u);
  for (uint32_t i = 0; i < top.size(); ++i) EXPECT_EQ(rank_of(logits, top[i].id), i + 1);
  EXPECT_EQ(rank_of(logits, 2), 6u);
  EXPECT_EQ(rank_of(logits, 5), 7u);
}

TEST(LogSoftmax, the_top_of_a_large_vocabulary_is_that_of_a_full_sort) {
  std::mt19937 random(1);
  std::uniform_int_distribution<int> steps(-40, 40);  // many ties
  std::vector<float> logits(5003);
  for (float& logit : logits) logit = static_cast<float>(steps(random)) / 8;
  for (size_t i = 0; i < logits.size(); i += 97) {
    logits[i] =
        i % 2 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
  }
  const LogSoftmax logprobs(logits);
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < logits.size(); ++id) {
    if (std::isfinite(logits[id])) ids.push_back(id);
  }
  std::ranges::stable_sort(ids, std::greater<>(), [&](TokenId id) { return logits[id]; });
  for (const uint32_t n : {1u, 5u, 78u, 79u, 80u, 1000u, 6000u}) {
    const auto top = logprobs.top(n);
    ASSERT_EQ(top.size(), std::min<size_t>(n, ids.size()));
    for (size_t i = 0; i < top.size(); ++i) {
      ASSERT_EQ(top[i].id, ids[i]) << n;
      ASSERT_EQ(top[i].logprob, logprobs.of(ids[i]));
    }
  }
}

}  // namespace
}  // namespace kvik
