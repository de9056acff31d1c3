#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "backend/host_memory.h"

namespace kvik {
namespace {

ModelConfig config_with(std::vector<RopeConfig> ropes) {
  ModelConfig config;
  config.ropes = std::move(ropes);
  return config;
}

// Returns the angle by its definition, in long double: position · scale · base^(-2i/n) / divisor.
long double angle_of(const RopeConfig& rope, uint32_t pair, uint32_t position,
                     long double divisor = 1) {
  const long double exponent = -2.0L * pair / rope.n_dims;
  return position * static_cast<long double>(rope.position_scale) *
         std::pow(static_cast<long double>(rope.base), exponent) / divisor;
}

// Half a unit in the last place of a float, plus the error of a double at an angle of a million
// radians.
constexpr long double kTolerance = 1e-7L;

void expect_angles(const RopeTables& tables, const RopeConfig& rope,
                   const std::vector<uint32_t>& positions, const std::vector<float>& divisors) {
  const RopeAngles angles = tables.angles(0);
  ASSERT_EQ(angles.n_pairs, rope.n_dims / 2);
  for (size_t row = 0; row < positions.size(); ++row) {
    for (uint32_t i = 0; i < angles.n_pairs; ++i) {
      const long double angle =
          angle_of(rope, i, positions[row], divisors.empty() ? 1.0L : divisors[i]);
      const size_t at = row * angles.n_pairs + i;
      EXPECT_NEAR(angles.cos[at], std::cos(angle), kTolerance) << positions[row] << " " << i;
      EXPECT_NEAR(angles.sin[at], std::sin(angle), kTolerance) << positions[row] << " " << i;
    }
  }
}

TEST(Rope, angles_are_those_of_the_definition_near_and_far) {
  HostMemory memory;
  const std::vector<uint32_t> positions = {0, 1, 2, 31, 32, 4095, 131071, 1000000};
  for (const float base : {1e4f, 5e5f, 1e6f}) {
    for (const uint32_t n_dims : {2u, 6u, 64u, 128u}) {
      const RopeConfig rope{.base = base, .n_dims = n_dims};
      RopeTables tables(memory, config_with({rope}), {}, 8);
      tables.prepare(positions);
      expect_angles(tables, rope, positions, {});
    }
  }
}

TEST(Rope, divisors_slow_each_pair_by_its_own_factor) {
  HostMemory memory;
  const RopeConfig rope{.base = 5e5f, .n_dims = 8};
  const std::vector<float> divisors = {1.0f, 1.5f, 8.0f, 32.0f};
  RopeTables tables(memory, config_with({rope}), divisors, 3);
  const std::vector<uint32_t> positions = {3, 77, 9000};
  tables.prepare(positions);
  expect_angles(tables, rope, positions, divisors);
}

TEST(Rope, linear_scaling_brings_positions_together) {
  HostMemory memory;
  const RopeConfig rope{.base = 1e4f, .position_scale = 0.125f, .n_dims = 16};
  RopeTables tables(memory, config_with({rope}), {}, 2);
  tables.prepare(std::vector<uint32_t>{800, 7});
  expect_angles(tables, rope, {800, 7}, {});

  RopeTables plain(memory, config_with({{.base = 1e4f, .n_dims = 16}}), {}, 1);
  plain.prepare(std::vector<uint32_t>{100});
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(tables.angles(0).cos[i], plain.angles(0).cos[i]);
    EXPECT_EQ(tables.angles(0).sin[i], plain.angles(0).sin[i]);
  }
}

// High frequencies do not change, low ones are divided by the factor, and the transition is smooth.
TEST(Rope, stretching_keeps_high_frequencies) {
  const RopeConfig yarn{
      .base = 1e4f, .position_scale = 0.25f, .n_dims = 128, .yarn = {.n_ctx_original = 4096}};
  const RopeConfig smooth{
      .base = 5e5f, .n_dims = 128, .llama3_scaling = {.n_ctx_original = 8192, .factor = 4.0f}};
  for (const RopeConfig& rope : {yarn, smooth}) {
    double last = 1;
    for (uint32_t i = 0; i < 64; ++i) {
      const double share =
          rope_frequency(rope, i, 1.0) / std::pow(double{rope.base}, -2.0 * i / 128);
      EXPECT_LE(share, last + 1e-12) << i;
      EXPECT_GE(share, 0.25 - 1e-12) << i;
      EXPECT_GT(share, last - 0.2) << i;
      last = share;
    }
    EXPECT_NEAR(rope_frequency(rope, 0, 1.0), 1.0, 1e-12);
    EXPECT_NEAR(last, 0.25, 1e-12);
  }
}

// Pair 31 is in the transition between the two wavelengths. The expected value follows the formula
// of Llama 3.1 in Transformers.
TEST(Rope, llama3_blends_between_two_wavelengths) {
  const RopeConfig rope{
      .base = 5e5f, .n_dims = 128, .llama3_scaling = {.n_ctx_original = 8192, .factor = 8.0f}};
  const double frequency = std::pow(5e5, -2.0 * 31 / 128);
  const double turns = 8192 * frequency / (2 * std::numbers::pi);
  ASSERT_GT(turns, 1);
  ASSERT_LT(turns, 4);
  const double stays = (turns - 1) / 3;
  EXPECT_NEAR(rope_frequency(rope, 31, 1.0), frequency * (stays + (1 - stays) / 8), 1e-12);
}

TEST(Rope, the_magnitude_multiplies_cos_and_sin) {
  HostMemory memory;
  RopeTables plain(memory, config_with({{.base = 1e4f, .n_dims = 4}}), {}, 1);
  RopeTables larger(memory, config_with({{.base = 1e4f, .n_dims = 4, .magnitude = 2.0f}}), {}, 1);
  plain.prepare(std::vector<uint32_t>{9});
  larger.prepare(std::vector<uint32_t>{9});
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(larger.angles(0).cos[i], 2 * plain.angles(0).cos[i]);
    EXPECT_EQ(larger.angles(0).sin[i], 2 * plain.angles(0).sin[i]);
  }
}

TEST(Rope, each_rope_of_a_model_has_a_table_of_its_own) {
  HostMemory memory;
  const RopeConfig wide{.base = 1e6f, .n_dims = 32, .pairing = RopePairing::kHalves};
  const RopeConfig local{.base = 1e4f, .n_dims = 16};
  RopeTables tables(memory, config_with({wide, local}), {}, 1);
  tables.prepare(std::vector<uint32_t>{50});
  EXPECT_EQ(tables.angles(0).n_pairs, 16u);
  EXPECT_EQ(tables.angles(1).n_pairs, 8u);
  EXPECT_EQ(tables.pairing(0), RopePairing::kHalves);
  EXPECT_EQ(tables.pairing(1), RopePairing::kInterleaved);
  EXPECT_NEAR(tables.angles(0).cos[1], std::cos(angle_of(wide, 1, 50)), kTolerance);
  EXPECT_NEAR(tables.angles(1).cos[1], std::cos(angle_of(local, 1, 50)), kTolerance);
}

TEST(Rope, a_rows_angles_do_not_depend_on_the_rows_beside_it) {
  HostMemory memory;
  const ModelConfig config = config_with({{.base = 1e4f, .n_dims = 64}});
  RopeTables together(memory, config, {}, 5);
  RopeTables alone(memory, config, {}, 5);
  const std::vector<uint32_t> positions = {9, 4000, 0, 33, 12345};
  together.prepare(positions);
  for (size_t row = 0; row < positions.size(); ++row) {
    alone.prepare(std::vector<uint32_t>{positions[row]});
    for (uint32_t i = 0; i < 32; ++i) {
      EXPECT_EQ(alone.angles(0).cos[i], together.angles(0).cos[row * 32 + i]);
      EXPECT_EQ(alone.angles(0).sin[i], together.angles(0).sin[row * 32 + i]);
    }
  }
}

}  // namespace
}  // namespace kvik
