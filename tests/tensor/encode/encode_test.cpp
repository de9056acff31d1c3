#include "tensor/encode/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/weight_types.h"
#include "tensor/blocks.h"
#include "tensor/tensor_view.h"

namespace kvik {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;

// Types and the share of the values' energy that normally distributed ones may lose, as a root.
struct Bound {
  ElementType type;
  double relative_error;
};
constexpr Bound kBounds[] = {
    {ElementType::kF16, 0.0003},     {ElementType::kBF16, 0.0025},
    {ElementType::kQ8_0, 0.0051},    {ElementType::kQ6_K, 0.0172},
    {ElementType::kQ5_K, 0.0350},    {ElementType::kQ5_1, 0.0340},
    {ElementType::kQ5_0, 0.0410},    {ElementType::kQ4_K, 0.0710},
    {ElementType::kQ4_1, 0.0705},    {ElementType::kIQ4_NL, 0.075},
    {ElementType::kQ4_0, 0.0820},    {ElementType::kQ3_K, 0.1480},
    {ElementType::kQ2_K, 0.2720},    {ElementType::kMXFP4, 0.1140},
    {ElementType::kNvFp4, 0.1000},   {ElementType::kIQ3_S, 0.1450},
    {ElementType::kIQ3_XXS, 0.1900}, {ElementType::kIQ2_S, 0.2700},
    {ElementType::kIQ2_XS, 0.3050},  {ElementType::kIQ2_XXS, 0.3600},
    {ElementType::kIQ1_M, 0.4500},   {ElementType::kIQ1_S, 0.5000},
    {ElementType::kTQ2_0, 0.4600},   {ElementType::kTQ1_0, 0.4600},
    {ElementType::kQ2_0, 0.3900},    {ElementType::kQ1_0, 0.6050},
    {ElementType::kIQ6_K, 0.0162},   {ElementType::kIQ5_K, 0.0325},
    {ElementType::kIQ4_K, 0.0650},   {ElementType::kIQ3_K, 0.1345},
    {ElementType::kIQ2_K, 0.2999},   {ElementType::kIQ5_KS, 0.0362},
    {ElementType::kIQ4_KS, 0.0737},  {ElementType::kIQ4_KSS, 0.1033},
    {ElementType::kIQ3_KS, 0.1558},  {ElementType::kIQ2_KS, 0.3340},
    {ElementType::kIQ2_KL, 0.2400},
};

std::vector<ElementType> encoded_types() {
  std::vector<ElementType> types = testing::weight_types();
  std::erase_if(types, [](ElementType type) { return !can_encode(type); });
  return types;
}

std::vector<float> normal_values(size_t n, float deviation = 0.02f, float mean = 0.0f) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<float> heavy_tailed_values(size_t n) {
  std::mt19937 random(8);
  std::student_t_distribution<float> student(3.0f);
  std::vector<float> values(n);
  for (float& v : values) v = 0.02f * student(random);
  return values;
}

std::vector<std::byte> bytes_for(ElementType type, size_t n) {
  const uint64_t shape[] = {n};
  return std::vector<std::byte>(*bytes_of(type, shape));
}

std::vector<std::byte> encoded(ElementType type, std::span<const float> values,
                               std::span<const float> importance = {}) {
  auto bytes = bytes_for(type, values.size());
  encode_row(type, values, importance, bytes.data());
  return bytes;
}

std::vector<float> decoded(ElementType type, const std::vector<std::byte>& bytes, size_t n) {
  std::vector<float> values(n);
  dequantize_row(type, bytes.data(), values);
  return values;
}

std::vector<float> round_trip(ElementType type, std::span<const float> values,
                              std::span<const float> importance = {}) {
  return decoded(type, encoded(type, values, importance), values.size());
}

double relative_error(std::span<const float> values, std::span<const float> got,
                      std::span<const float> importance = {}) {
  double lost = 0;
  double all = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double w = importance.empty() ? 1.0 : static_cast<double>(importance[i]);
    const double difference = static_cast<double>(got[i]) - static_cast<double>(values[i]);
    lost += w * difference * difference;
    all += w * static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return std::sqrt(lost / all);
}

TEST(Encode, normally_distributed_values_lose_no_more_than_each_type_must) {
  const auto values = normal_values(8192);
  for (const Bound& bound : kBounds) {
    const double error = relative_error(values, round_trip(bound.type, values));
    EXPECT_LT(error, bound.relative_error) << name_of(bound.type);
  }
  for (const ElementType type : encoded_types()) {
    if (traits(type).block_elements == 1) continue;
    const double bits = 8.0 * traits(type).block_bytes / traits(type).block_elements;
    const double error = relative_error(values, round_trip(type, values));
    EXPECT_LT(error, 2.8 * std::exp2(-bits)) << name_of(type);
  }
}

TEST(Encode, a_search_is_never_worse_than_plain_rounding) {
  for (const auto& values :
       {normal_values(8192), heavy_tailed_values(8192), normal_values(8192, 0.02f, 0.03f)}) {
    for (const ElementType type : encoded_types()) {
      auto plain = bytes_for(type, values.size());
      quantize_row(type, values, plain.data());
      const double of_plain = relative_error(values, decoded(type, plain, values.size()));
      const double of_search = relative_error(values, round_trip(type, values));
      EXPECT_LE(of_search, of_plain) << name_of(type);
    }
  }
}

TEST(Encode, columns_that_count_more_lose_less) {
  const auto values = normal_values(4096);
  std::vector<float> importance(values.size());
  std::mt19937 random(3);
  std::lognormal_distribution<float> spread(0.0f, 1.5f);
  for (float& w : importance) w = spread(random);
  for (const ElementType type : encoded_types()) {
    if (traits(type).block_elements == 1) continue;
    // A power of two leaves little to choose, and the least numbers of E4M3 are as coarse, and so
    // is one threshold for 256 values, or none.
    if (type == ElementType::kMXFP4 || type == ElementType::kNvFp4) continue;
    if (type == ElementType::kTQ1_0 || type == ElementType::kTQ2_0) continue;
    if (type == ElementType::kQ1_0) continue;
    const double without = relative_error(values, round_trip(type, values), importance);
    const double with = relative_error(values, round_trip(type, values, importance), importance);
    EXPECT_LT(with, 0.97 * without) << name_of(type);
  }
}

TEST(Encode, importance_that_is_the_same_everywhere_changes_nothing) {
  const auto values = normal_values(1024);
  const std::vector<float> importance(values.size(), 1.0f);
  for (const ElementType type : encoded_types()) {
    // These favor large values without.
    if (type == ElementType::kQ3_K || type == ElementType::kIQ3_K) continue;
    if (type == ElementType::kIQ3_KS) continue;
    EXPECT_EQ(encoded(type, values), encoded(type, values, importance)) << name_of(type);
  }
}

TEST(Encode, zeros_stay_zeros) {
  const std::vector<float> zeros(1024, 0.0f);
  for (const ElementType type : encoded_types()) {
    EXPECT_THAT(round_trip(type, zeros), Each(0.0f)) << name_of(type);
  }
}

TEST(Encode, a_block_of_zeros_between_others_stays_zero) {
  auto values = normal_values(1024);
  std::fill(values.begin() + 256, values.begin() + 512, 0.0f);
  for (const ElementType type : encoded_types()) {
    // The factors under the scale of the row are odd.
    if (type == ElementType::kIQ4_KS || type == ElementType::kIQ5_KS ||
        type == ElementType::kIQ4_KSS) {
      continue;
    }
    const auto got = round_trip(type, values);
    for (size_t i = 256; i < 512; ++i) {
      ASSERT_EQ(got[i], 0.0f) << name_of(type) << " at " << i;
    }
  }
}

TEST(Encode, blocks_of_one_value_keep_it) {
  for (const float value : {1.0f, -1.0f, 0.37f, -0.0113f}) {
    const std::vector<float> values(512, value);
    for (const ElementType type : encoded_types()) {
      // The scales of MXFP4 are powers of two, and its levels of one sign differ by at least three
      // quarters. The scales of NVFP4 have three bits, or two if they are as small as here.
      const double allowed = type == ElementType::kMXFP4   ? 0.2
                             : type == ElementType::kNvFp4 ? 0.04
                                                           : 0.01;
      EXPECT_LT(relative_error(values, round_trip(type, values)), allowed)
          << name_of(type) << " of " << value;
    }
  }
}

TEST(Encode, values_too_small_for_a_scale_become_small_or_zero) {
  for (const float size : {1e-5f, 1e-6f, 1e-8f, 1e-20f, 1e-42f}) {
    const auto values = normal_values(512, size);
    for (const ElementType type : encoded_types()) {
      for (const float got : round_trip(type, values)) {
        ASSERT_LE(std::fabs(got), 8 * size) << name_of(type);
      }
    }
  }
}

TEST(Encode, values_that_shrink_do_not_vanish_before_they_must) {
  const auto values = normal_values(512, 2e-6f);  // a sixty-third of their scale is no f16
  EXPECT_LT(relative_error(values, round_trip(ElementType::kQ4_K, values)), 0.2);
}

TEST(Encode, a_column_that_counts_nothing_still_gets_a_finite_value) {
  const auto values = normal_values(512);
  const std::vector<float> nothing(values.size(), 0.0f);
  for (const ElementType type : encoded_types()) {
    for (const float got : round_trip(type, values, nothing)) {
      ASSERT_TRUE(std::isfinite(got)) << name_of(type);
    }
  }
}

TEST(Encode, a_block_does_not_depend_on_its_neighbors) {
  const auto values = heavy_tailed_values(256 * 5);
  for (const ElementType type : encoded_types()) {
    if (traits(type).row_header_bytes > 0) continue;
    const auto whole = encoded(type, values);
    std::vector<std::byte> pieces;
    for (size_t b = 0; b < 5; ++b) {
      const auto piece = encoded(type, std::span(values).subspan(256 * b, 256));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_THAT(whole, ElementsAreArray(pieces)) << name_of(type);
  }
}

TEST(Encode, every_instruction_set_gives_the_same_bytes) {
  const auto values = heavy_tailed_values(256 * 3);
  std::vector<float> importance(values.size());
  for (size_t i = 0; i < importance.size(); ++i) importance[i] = 0.1f + static_cast<float>(i % 7);
  for (const ElementType type : encoded_types()) {
    auto baseline = bytes_for(type, values.size());
    ASSERT_TRUE(encode_row_with("baseline", type, values, importance, baseline.data()));
    auto bytes = bytes_for(type, values.size());
    if (!encode_row_with("avx512", type, values, importance, bytes.data())) continue;
    EXPECT_EQ(bytes, baseline) << name_of(type) << " with avx512";
  }
}

TEST(Encode, types_without_an_encoder_say_so) {
  EXPECT_FALSE(can_encode(ElementType::kQ8_K));
  EXPECT_FALSE(can_encode(ElementType::kI8));
  EXPECT_TRUE(can_encode(ElementType::kQ4_K));
  EXPECT_TRUE(can_encode(ElementType::kBF16));
}

}  // namespace
}  // namespace kvik
