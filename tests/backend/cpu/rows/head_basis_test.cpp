#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/isa.h"
#include "backend/random_matrix.h"

namespace kvik::cpu {
namespace {

using testing::random_floats;
using testing::same_bytes;

constexpr uint32_t kHeadDims[] = {1, 4, 20, 33, 64, 80, 96, 128, 160, 256, 1024};

// Returns the scalar result, after comparing it with every other available instruction set byte by
// byte.
template <class Function>
std::vector<float> on_all(const std::vector<float>& head, Function function) {
  std::vector<float> expected;
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    std::vector<float> result = head;
    function(isa.attention, result.data());
    if (expected.empty()) expected = result;
    EXPECT_TRUE(same_bytes(result, expected)) << isa.name;
  }
  return expected;
}

TEST(HeadBasis, centers_are_subtracted_then_factors_multiply) {
  for (const uint32_t n : kHeadDims) {
    const auto x = random_floats(n, 1);
    const auto centers = random_floats(n, 2);
    const auto factors = random_floats(n, 3);
    const auto out = on_all(x, [&](const AttentionKernels& kernels, float* head) {
      kernels.change_basis(head, n, centers.data(), factors.data(), HeadRotation::kNone);
    });
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(out[i], (x[i] - centers[i]) * factors[i]);
  }
}

TEST(HeadBasis, rotating_back_undoes_rotating_forward) {
  for (const uint32_t n : kHeadDims) {
    std::vector<float> x = random_floats(n, 4);
    for (float& v : x) v = std::round(v * 256.0f);  // so that no sum is rounded
    const auto out = on_all(x, [&](const AttentionKernels& kernels, float* head) {
      kernels.change_basis(head, n, nullptr, nullptr, HeadRotation::kForward);
      kernels.change_basis(head, n, nullptr, nullptr, HeadRotation::kBack);
    });
    EXPECT_EQ(out, x) << n;
  }
}

TEST(HeadBasis, a_query_rotated_back_meets_a_rotated_key_with_the_same_score) {
  for (const uint32_t n : kHeadDims) {
    const auto q = random_floats(n, 5);
    const auto k = random_floats(n, 6);
    const auto rotated_q = on_all(q, [&](const AttentionKernels& kernels, float* head) {
      kernels.change_basis(head, n, nullptr, nullptr, HeadRotation::kBack);
    });
    const auto rotated_k = on_all(k, [&](const AttentionKernels& kernels, float* head) {
      kernels.change_basis(head, n, nullptr, nullptr, HeadRotation::kForward);
    });
    double score = 0, rotated_score = 0;
    for (uint32_t i = 0; i < n; ++i) {
      score += double{q[i]} * k[i];
      rotated_score += double{rotated_q[i]} * rotated_k[i];
    }
    EXPECT_NEAR(rotated_score, score, 1e-5 * n);
  }
}

TEST(HeadBasis, one_large_dimension_is_spread_over_all) {
  std::vector<float> x(64, 0.0f);
  x[5] = 64.0f;
  const auto out = on_all(x, [&](const AttentionKernels& kernels, float* head) {
    kernels.change_basis(head, 64, nullptr, nullptr, HeadRotation::kForward);
  });
  for (const float v : out) EXPECT_EQ(std::abs(v), 8.0f);
}

TEST(HeadBasis, nothing_past_the_end_of_a_head_is_written) {
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    for (const HeadRotation rotation : {HeadRotation::kNone, HeadRotation::kForward}) {
      std::vector<float> x(40 + 16, 5.0f);
      const std::vector<float> twos(40, 2.0f);
      isa.attention.change_basis(x.data(), 40, nullptr, twos.data(), rotation);
      for (uint32_t i = 40; i < x.size(); ++i) EXPECT_EQ(x[i], 5.0f) << isa.name;
    }
  }
}

}  // namespace
}  // namespace kvik::cpu
