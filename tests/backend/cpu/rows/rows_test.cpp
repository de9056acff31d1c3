#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "backend/cpu/isa.h"
#include "backend/random_matrix.h"

namespace kvik::cpu {
namespace {

using testing::random_floats;
using testing::same_bytes;

constexpr uint32_t kSizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 80, 100, 257, 2048, 2051};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

using RowFunction = std::function<std::vector<float>(const RowKernels&)>;

// Returns the scalar result, after comparing it with every other available instruction set byte by
// byte.
std::vector<float> on_all(const RowFunction& function) {
  std::vector<float> expected;
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    const std::vector<float> result = function(isa.rows);
    if (expected.empty()) expected = result;
    EXPECT_TRUE(same_bytes(result, expected)) << isa.name;
  }
  return expected;
}

void expect_near_all(const std::vector<float>& values, const std::vector<double>& expected,
                     double relative) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], relative * (1e-3 + std::abs(expected[i]))) << "at " << i;
  }
}

TEST(Rows, rms_norm_divides_by_the_root_of_the_mean_square) {
  for (const uint32_t n : kSizes) {
    const auto x = random_floats(n, 1);
    const auto weight = random_floats(n, 2);
    const auto out = on_all([&](const RowKernels& rows) {
      std::vector<float> result(n);
      rows.rms_norm(x.data(), weight.data(), n, 1e-5f, result.data());
      return result;
    });
    double squares = 0;
    for (const float v : x) squares += double{v} * v;
    std::vector<double> expected(n);
    for (uint32_t i = 0; i < n; ++i) {
      expected[i] = x[i] / std::sqrt(squares / n + double{1e-5f}) * weight[i];
    }
    expect_near_all(out, expected, 1e-6);
  }
}

TEST(Rows, a_dot_product_is_a_sum_of_products) {
  for (const uint32_t n : kSizes) {
    const auto x = random_floats(n, 1);
    const auto y = random_floats(n, 2);
    const auto out = on_all(
        [&](const RowKernels& rows) { return std::vector{rows.dot(x.data(), y.data(), n)}; });
    double sum = 0, magnitude = 0;
    for (uint32_t i = 0; i < n; ++i) {
      sum += double{x[i]} * y[i];
      magnitude += std::abs(double{x[i]} * y[i]);
    }
    EXPECT_NEAR(out[0], sum, 1e-6 * (magnitude + 1e-3));
  }
}

TEST(Rows, rms_norm_works_in_place_and_on_zeros) {
  const auto x = random_floats(100, 3);
  const std::vector<float> ones(100, 1.0f);
  const auto apart = on_all([&](const RowKernels& rows) {
    std::vector<float> result(100);
    rows.rms_norm(x.data(), ones.data(), 100, 1e-6f, result.data());
    return result;
  });
  const auto in_place = on_all([&](const RowKernels& rows) {
    std::vector<float> result = x;
    rows.rms_norm(result.data(), ones.data(), 100, 1e-6f, result.data());
    return result;
  });
  EXPECT_TRUE(same_bytes(apart, in_place));
  const auto zeros = on_all([&](const RowKernels& rows) {
    std::vector<float> result(100, 0.0f);
    rows.rms_norm(result.data(), ones.data(), 100, 1e-6f, result.data());
    return result;
  });
  EXPECT_EQ(zeros, std::vector<float>(100, 0.0f));
}

TEST(Rows, layer_norm_centers_and_divides_by_the_standard_deviation) {
  for (const uint32_t n : kSizes) {
    auto x = random_floats(n, 11);
    for (float& v : x) v += 3;
    const auto weight = random_floats(n, 12);
    const auto bias = random_floats(n, 13);
    double mean = 0, squares = 0;
    for (const float v : x) mean += double{v} / n;
    for (const float v : x) squares += (v - mean) * (v - mean);
    for (const float* added : {bias.data(), static_cast<const float*>(nullptr)}) {
      const auto out = on_all([&](const RowKernels& rows) {
        std::vector<float> result(n);
        rows.layer_norm(x.data(), weight.data(), added, n, 1e-5f, result.data());
        std::vector<float> in_place = x;
        rows.layer_norm(in_place.data(), weight.data(), added, n, 1e-5f, in_place.data());
        EXPECT_TRUE(same_bytes(result, in_place));
        return result;
      });
      std::vector<double> expected(n);
      for (uint32_t i = 0; i < n; ++i) {
        expected[i] = (x[i] - mean) / std::sqrt(squares / n + double{1e-5f}) * weight[i];
        if (added) expected[i] += added[i];
      }
      // x − mean is rounded in proportion to x, which is near 3.
      for (uint32_t i = 0; i < n; ++i) {
        EXPECT_NEAR(out[i], expected[i], 1e-6 * (1 + std::abs(expected[i]))) << "at " << i;
      }
    }
  }
}

TEST(Rows, a_limited_silu_bounds_both_factors) {
  for (const uint32_t n : kSizes) {
    const auto gate = random_floats(n, 14);
    auto up = random_floats(n, 15);
    for (uint32_t i = 0; i < n; i += 3) up[i] *= 20;
    const auto out = on_all([&](const RowKernels& rows) {
      std::vector<float> result(n);
      rows.limited_silu(gate.data(), up.data(), 0.25f, n, result.data());
      std::vector<float> in_place = gate;
      rows.limited_silu(in_place.data(), up.data(), 0.25f, n, in_place.data());
      EXPECT_TRUE(same_bytes(result, in_place));
      return result;
    });
    for (uint32_t i = 0; i < n; ++i) {
      const double silu = gate[i] / (1 + std::exp(-double{gate[i]}));
      const double expected = std::min(silu, 0.25) * std::clamp(double{up[i]}, -0.25, 0.25);
      EXPECT_NEAR(out[i], expected, 1e-7) << "at " << i;
    }
  }
}

TEST(Rows, gelu_is_x_times_the_normal_distribution) {
  std::vector<float> x;
  for (float v = -14; v <= 14; v += 1.0f / 512) x.push_back(v);
  for (const float v : {0.0f, -0.0f, 1e-30f, -1e-30f, 1e4f, -1e4f, 3e38f, -3e38f}) x.push_back(v);
  const auto n = static_cast<uint32_t>(x.size());
  const std::vector<float> up(n, 0.5f);
  const auto apply = [&](Activation activation) {
    return on_all([&](const RowKernels& rows) {
      std::vector<float> result(n);
      rows.gated_activation(activation, x.data(), up.data(), n, result.data());
      return result;
    });
  };
  const auto out = apply(Activation::kGelu);
  const auto gated = apply(Activation::kGatedGelu);
  for (uint32_t i = 0; i < n; ++i) {
    const double expected = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
    EXPECT_NEAR(out[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << x[i];
    EXPECT_EQ(gated[i], out[i] * 0.5f);
  }
}

TEST(Rows, xielu_has_the_values_of_its_formula) {
  std::vector<float> x;
  for (float v = -14; v <= 14; v += 1.0f / 512) x.push_back(v);
  for (const float v : {0.0f, -0.0f, 1e-7f, -1e-7f, -1e-3f, -1e-30f, -200.0f, -1e30f, 1e10f}) {
    x.push_back(v);
  }
  const auto n = static_cast<uint32_t>(x.size());
  for (const float limit : {-1e-6f, 0.25f, -0.5f}) {
    const Xielu p = {.positive = 0.7f, .negative = 1.3f, .linear = 0.5f, .limit = limit};
    const auto out = on_all([&](const RowKernels& rows) {
      std::vector<float> result = x;
      rows.xielu(result.data(), p, n);
      return result;
    });
    for (uint32_t i = 0; i < n; ++i) {
      const double v = x[i];
      const double negative = (std::expm1(std::min(v, double{limit})) - v) * p.negative;
      const double curved = v > 0 ? double{p.positive} * v * v : negative;
      const double expected = curved + double{p.linear} * v;
      EXPECT_NEAR(out[i], expected, 1e-7 + 1e-6 * std::abs(expected)) << x[i];
    }
  }
}

TEST(Rows, a_cut_off_row_keeps_what_exceeds_its_mean_by_some_deviations) {
  for (const uint32_t n : kSizes) {
    const auto x = random_floats(n, 8);
    double mean = 0, variance = 0;
    for (const float v : x) mean += v / n;
    for (const float v : x) variance += (v - mean) * (v - mean) / n;
    for (const float cutoff : {0.0f, 1.6448536f, -2.0f}) {
      const auto out = on_all([&](const RowKernels& rows) {
        std::vector<float> result = x;
        rows.cut_off(result.data(), cutoff, n);
        return result;
      });
      for (uint32_t i = 0; i < n; ++i) {
        EXPECT_NEAR(out[i], std::max(0.0, x[i] - mean - cutoff * std::sqrt(variance)), 3e-6);
      }
    }
    const auto squares = on_all(
        [&](const RowKernels& rows) { return std::vector<float>{rows.mean_square(x.data(), n)}; });
    EXPECT_NEAR(squares[0], variance + mean * mean, 1e-6 * (1 + variance));
  }
}

TEST(Rows, add_and_scale_are_one_operation_per_element) {
  for (const uint32_t n : kSizes) {
    const auto x = random_floats(n, 4);
    const auto y = random_floats(n, 5);
    const auto sum = on_all([&](const RowKernels& rows) {
      std::vector<float> result = x;
      rows.add(result.data(), y.data(), n);
      return result;
    });
    const auto scaled = on_all([&](const RowKernels& rows) {
      std::vector<float> result = x;
      rows.scale(result.data(), 0.3f, n);
      return result;
    });
    for (uint32_t i = 0; i < n; ++i) {
      EXPECT_EQ(sum[i], x[i] + y[i]);
      EXPECT_EQ(scaled[i], x[i] * 0.3f);
    }
  }
}

TEST(Rows, nothing_is_written_past_the_end) {
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    for (const uint32_t n : {1u, 7u, 16u, 21u, 40u}) {
      std::vector<float> x(n + 16, 5.0f);
      const std::vector<float> y(n, 1.0f);
      isa.rows.add(x.data(), y.data(), n);
      isa.rows.scale(x.data(), 2.0f, n);
      isa.rows.soft_cap(x.data(), 3.0f, n);
      isa.rows.rms_norm(x.data(), y.data(), n, 1e-5f, x.data());
      isa.rows.gated_activation(Activation::kSilu, x.data(), y.data(), n, x.data());
      isa.rows.gated_activation(Activation::kGeluTanh, x.data(), y.data(), n, x.data());
      isa.rows.gated_activation(Activation::kClampedSwish, x.data(), y.data(), n, x.data());
      isa.rows.xielu(x.data(), {.positive = 1, .negative = 1, .linear = 1, .limit = -1e-6f}, n);
      isa.rows.cut_off(x.data(), 1.0f, n);
      isa.rows.rope(x.data(), RopePairing::kInterleaved, y.data(), y.data(), n / 2);
      isa.rows.rope(x.data(), RopePairing::kHalves, y.data(), y.data(), n / 2);
      for (size_t i = n; i < x.size(); ++i) EXPECT_EQ(x[i], 5.0f) << isa.name << " at " << i;
    }
  }
}

std::vector<float> activation_of(const RowKernels& rows, Activation activation,
                                 const std::vector<float>& gate, const std::vector<float>& up) {
  std::vector<float> result(gate.size());
  rows.gated_activation(activation, gate.data(), up.data(), static_cast<uint32_t>(gate.size()),
                        result.data());
  return result;
}

std::vector<float> sweep(float from, float to, float step) {
  std::vector<float> values;
  for (float x = from; x <= to; x += step) values.push_back(x);
  return values;
}

TEST(Rows, silu_is_the_gate_times_its_sigmoid) {
  const auto gate = sweep(-100.0f, 100.0f, 0x1p-8f);
  const auto up = random_floats(gate.size(), 6);
  const auto out = on_all(
      [&](const RowKernels& rows) { return activation_of(rows, Activation::kSilu, gate, up); });
  std::vector<double> expected;
  for (size_t i = 0; i < gate.size(); ++i) {
    expected.push_back(gate[i] / (1 + std::exp(-double{gate[i]})) * up[i]);
  }
  expect_near_all(out, expected, 1e-6);
}

TEST(Rows, clamped_swish_cuts_both_and_adds_one_to_the_second) {
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    const std::vector<float> gate = sweep(-12.0f, 12.0f, 0.37f);
    std::vector<float> up;
    for (const float x : gate) up.push_back(1.1f * x + 0.5f);
    const auto got = activation_of(isa.rows, Activation::kClampedSwish, gate, up);
    for (size_t i = 0; i < gate.size(); ++i) {
      const double x = std::min(gate[i], 7.0f);
      const double y = std::clamp(up[i], -7.0f, 7.0f);
      const double want = x / (1 + std::exp(-1.702 * x)) * (y + 1);
      EXPECT_NEAR(got[i], want, 1e-6 * (1 + std::fabs(want))) << isa.name << " at " << gate[i];
    }
  }
}

TEST(Rows, gelu_is_the_tanh_form) {
  const auto gate = sweep(-20.0f, 20.0f, 0x1p-10f);
  const auto up = random_floats(gate.size(), 7);
  const auto out = on_all(
      [&](const RowKernels& rows) { return activation_of(rows, Activation::kGeluTanh, gate, up); });
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    const double inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
    EXPECT_NEAR(out[i], 0.5 * g * (1 + std::tanh(inner)) * up[i], 1e-6 * (1 + std::abs(g * up[i])));
  }
}

TEST(Rows, an_element_has_the_same_bits_wherever_it_stands) {
  const auto gate = random_floats(47, 8);
  const auto up = random_floats(47, 9);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
    const auto all =
        on_all([&](const RowKernels& rows) { return activation_of(rows, activation, gate, up); });
    for (size_t i = 0; i < gate.size(); ++i) {
      const auto alone = on_all([&](const RowKernels& rows) {
        return activation_of(rows, activation, {gate[i]}, {up[i]});
      });
      EXPECT_TRUE(same_bytes(alone, {all[i]})) << i;
    }
  }
}

TEST(Rows, infinities_and_nans_pass_through) {
  const std::vector<float> gate = {kInfinity, -kInfinity, kNaN, 1e30f, -1e30f, 0.0f, -0.0f};
  const std::vector<float> up(gate.size(), 1.0f);
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      const auto out = activation_of(isa.rows, activation, gate, up);
      EXPECT_EQ(out[0], kInfinity);
      EXPECT_TRUE(std::isnan(out[2]));
      EXPECT_EQ(out[3], 1e30f);
      EXPECT_LE(std::abs(out[4]), 1e-8f);
      EXPECT_EQ(out[5], 0.0f);
    }
    std::vector<float> capped = gate;
    isa.rows.soft_cap(capped.data(), 30.0f, static_cast<uint32_t>(capped.size()));
    EXPECT_EQ(capped[0], 30.0f);
    EXPECT_EQ(capped[1], -30.0f);
    EXPECT_TRUE(std::isnan(capped[2]));
  }
}

TEST(Rows, soft_cap_bends_towards_the_cap) {
  const auto x = sweep(-200.0f, 200.0f, 0x1p-6f);
  const auto out = on_all([&](const RowKernels& rows) {
    std::vector<float> result = x;
    rows.soft_cap(result.data(), 30.0f, static_cast<uint32_t>(x.size()));
    return result;
  });
  std::vector<double> expected;
  for (const float v : x) expected.push_back(30 * std::tanh(double{v} / 30));
  expect_near_all(out, expected, 1e-6);
}

TEST(Rows, rope_turns_pairs_by_their_angle_and_leaves_the_rest) {
  for (const uint32_t n_pairs : {1u, 4u, 7u, 8u, 9u, 12u, 16u, 20u, 32u, 40u, 64u, 128u}) {
    const uint32_t head_dim = 2 * n_pairs + 6;
    const auto head = random_floats(head_dim, n_pairs);
    std::vector<float> cosines(n_pairs), sines(n_pairs);
    for (uint32_t i = 0; i < n_pairs; ++i) {
      cosines[i] = std::cos(0.1f * static_cast<float>(i * i));
      sines[i] = std::sin(0.1f * static_cast<float>(i * i));
    }
    for (const RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
      const auto rotated = on_all([&](const RowKernels& rows) {
        std::vector<float> result = head;
        rows.rope(result.data(), pairing, cosines.data(), sines.data(), n_pairs);
        return result;
      });
      std::vector<double> expected(head.begin(), head.end());
      for (uint32_t i = 0; i < n_pairs; ++i) {
        const bool interleaved = pairing == RopePairing::kInterleaved;
        const uint32_t a = interleaved ? 2 * i : i;
        const uint32_t b = interleaved ? 2 * i + 1 : i + n_pairs;
        expected[a] = double{head[a]} * cosines[i] - double{head[b]} * sines[i];
        expected[b] = double{head[a]} * sines[i] + double{head[b]} * cosines[i];
      }
      for (uint32_t i = 0; i < head_dim; ++i) EXPECT_NEAR(rotated[i], expected[i], 1e-6);
    }
  }
}

}  // namespace
}  // namespace kvik::cpu
