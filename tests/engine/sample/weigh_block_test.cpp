#include "engine/sample/weigh_block.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

#include "engine/sample/weight_of.h"

namespace kvik {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
using Block = std::array<float, kWeighBlock>;

// Adds up weights in the order that sampler.h defines.
double sum_of(const Block& weights) {
  std::array<double, 8> sums{};
  for (size_t i = 0; i < weights.size(); ++i) sums[i % 8] += weights[i];
  for (size_t n = 4; n > 0; n /= 2) {
    for (size_t i = 0; i < n; ++i) sums[i] += sums[i + n];
  }
  return sums[0];
}

TEST(WeighBlocks, all_give_the_weights_and_sums_of_their_definition) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-20, 30);
  constexpr float kSpecial[] = {0.0f, -0.0f, -kInf, kInf, kNaN, -kNaN, -1e30f, -104.0f, -103.9f};
  ASSERT_FALSE(weigh_blocks().empty());
  for (int round = 0; round < 1000; ++round) {
    Block logits;
    for (float& logit : logits) {
      logit = random() % 16 == 0 ? kSpecial[random() % std::size(kSpecial)] : normal(random);
    }
    const Temperature t = {round % 2 ? 0.0f : 3.25f, round % 3 ? 0.8f : 1.7f};
    const float least = round % 5 ? std::numeric_limits<float>::denorm_min() : 1e-3f;
    Block want;
    for (size_t i = 0; i < want.size(); ++i) {
      const float weight = weight_of(t.scaled(logits[i]));
      want[i] = weight >= least ? weight : 0;
    }
    for (const WeighBlock weigh : weigh_blocks()) {
      Block got;
      EXPECT_EQ(weigh(logits, t, least, got), sum_of(want));
      EXPECT_EQ(got, want);
      Block in_place = logits;
      weigh(in_place, t, least, in_place);
      EXPECT_EQ(in_place, want);
    }
  }
}

}  // namespace
}  // namespace kvik
