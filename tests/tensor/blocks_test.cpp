#include "tensor/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tensor/half.h"
#include "tensor/k_blocks.h"
#include "tensor/tensor_view.h"

namespace kvik {
namespace {

using ::testing::Each;

constexpr ElementType kAllTypes[] = {ElementType::kF32,  ElementType::kF16,  ElementType::kBF16,
                                     ElementType::kQ8_0, ElementType::kQ4_0, ElementType::kQ4_K,
                                     ElementType::kQ5_K, ElementType::kQ6_K};

std::vector<float> normal_values(size_t n, float deviation = 1.0f) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

std::vector<std::byte> quantized(ElementType type, std::span<const float> values) {
  const uint64_t shape[] = {values.size()};
  std::vector<std::byte> bytes(*bytes_of(type, shape));
  quantize_row(type, values, bytes.data());
  return bytes;
}

std::vector<float> round_trip(ElementType type, std::span<const float> values) {
  std::vector<float> out(values.size());
  dequantize_row(type, quantized(type, values).data(), out);
  return out;
}

float peak_of(std::span<const float> values) {
  float peak = 0;
  for (const float v : values) peak = std::max(peak, std::fabs(v));
  return peak;
}

TEST(Blocks, a_hand_made_q8_0_block_means_scale_times_quants) {
  BlockQ8_0 blocks[2] = {{f32_to_f16(0.5f), {}}, {f32_to_f16(-2.0f), {}}};
  for (int i = 0; i < 32; ++i) {
    blocks[0].quants[i] = static_cast<int8_t>(i - 16);
    blocks[1].quants[i] = static_cast<int8_t>(i == 31 ? -128 : i);
  }
  std::vector<float> out(64);
  dequantize_row(ElementType::kQ8_0, reinterpret_cast<const std::byte*>(blocks), out);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], 0.5f * static_cast<float>(i - 16));
    EXPECT_EQ(out[32 + i], -2.0f * static_cast<float>(i == 31 ? -128 : i));
  }
}

TEST(Blocks, a_hand_made_q4_0_block_has_its_second_half_in_the_high_nibbles) {
  BlockQ4_0 block{f32_to_f16(0.25f), {}};
  for (int i = 0; i < 16; ++i) block.nibbles[i] = static_cast<uint8_t>(i | ((15 - i) << 4));
  std::vector<float> out(32);
  dequantize_row(ElementType::kQ4_0, reinterpret_cast<const std::byte*>(&block), out);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 0.25f * static_cast<float>(i - 8));
    EXPECT_EQ(out[16 + i], 0.25f * static_cast<float>(7 - i));
  }
}

TEST(Blocks, f32_keeps_every_bit) {
  const auto values = normal_values(37);
  EXPECT_EQ(round_trip(ElementType::kF32, values), values);
}

TEST(Blocks, f16_and_bf16_err_by_half_a_last_place_at_most) {
  const auto values = normal_values(1000);
  const auto f16 = round_trip(ElementType::kF16, values);
  const auto bf16 = round_trip(ElementType::kBF16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(f16[i], values[i], std::max(std::fabs(values[i]) * 0x1p-11f, 0x1p-25f));
    EXPECT_NEAR(bf16[i], values[i], std::fabs(values[i]) * 0x1p-8f);
  }
}

TEST(Blocks, q8_0_errs_by_half_a_step_of_its_block_at_most) {
  const auto values = normal_values(32 * 100);
  const auto out = round_trip(ElementType::kQ8_0, values);
  for (size_t b = 0; b < values.size(); b += 32) {
    const float step = peak_of(std::span(values).subspan(b, 32)) / 127.0f;
    // The scale is rounded to f16 after the quants are chosen: 127 steps of 2^-11 at most.
    const float bound = step * (0.5f + 127.0f * 0x1p-11f) * 1.001f;
    for (size_t i = b; i < b + 32; ++i) EXPECT_NEAR(out[i], values[i], bound);
  }
}

TEST(Blocks, q4_0_errs_by_half_a_step_but_for_the_end_without_a_level) {
  const auto values = normal_values(32 * 100);
  const auto out = round_trip(ElementType::kQ4_0, values);
  for (size_t b = 0; b < values.size(); b += 32) {
    // Levels are −8…7 times the step, so the peak's opposite may miss by one step.
    const float step = peak_of(std::span(values).subspan(b, 32)) / 8.0f;
    for (size_t i = b; i < b + 32; ++i) EXPECT_NEAR(out[i], values[i], step * 1.01f);
  }
}

TEST(Blocks, the_largest_value_of_a_block_is_kept_best) {
  std::vector<float> values(32, 0.1f);
  values[5] = -4.0f;
  EXPECT_EQ(round_trip(ElementType::kQ4_0, values)[5], -4.0f);
  EXPECT_NEAR(round_trip(ElementType::kQ8_0, values)[5], -4.0f, 4.0f * 0x1p-11f);
}

TEST(Blocks, a_block_of_zeros_stays_zero) {
  const std::vector<float> zeros(256, 0.0f);
  for (const ElementType type : kAllTypes) {
    EXPECT_THAT(round_trip(type, zeros), Each(0.0f)) << name_of(type);
  }
}

TEST(Blocks, types_that_can_be_quantized_can_be_dequantized) {
  for (const ElementType type : kAllTypes) {
    EXPECT_TRUE(can_dequantize(type)) << name_of(type);
  }
  EXPECT_FALSE(can_dequantize(ElementType::kI64));
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

TEST(Blocks, a_hand_made_q4_k_block_has_scales_and_minima_of_six_bits) {
  BlockQ4K block{f32_to_f16(0.5f), f32_to_f16(0.25f), {}, {}};
  block.scales[1] = 0x85;  // sub-block 1: scale 5; sub-block 5: the two high bits are 2
  block.scales[5] = 0x43;  // sub-block 1: minimum 3; sub-block 5: the two high bits are 1
  block.scales[9] = 0x7e;  // sub-block 5: scale 2 · 16 + 14, minimum 1 · 16 + 7
  for (int i = 0; i < 128; ++i)
    block.nibbles[i] = static_cast<uint8_t>(i % 16 | (15 - i % 16) << 4);
  std::vector<float> out(256);
  dequantize_row(ElementType::kQ4_K, reinterpret_cast<const std::byte*>(&block), out);
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i], 0);
    EXPECT_EQ(out[32 + i], 0.5f * 5 * static_cast<float>(15 - i % 16) - 0.25f * 3);
    EXPECT_EQ(out[160 + i], 0.5f * 46 * static_cast<float>(15 - i % 16) - 0.25f * 23);
  }
}

TEST(Blocks, k_types_err_less_the_more_bits_they_have) {
  const auto values = normal_values(256 * 64);
  const auto error_of = [&](ElementType type) {
    const auto out = round_trip(type, values);
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) squares += std::pow(out[i] - values[i], 2);
    return std::sqrt(squares / static_cast<double>(values.size()));
  };
  EXPECT_LT(error_of(ElementType::kQ4_K), 0.078);  // of the deviation; q4_0: 0.084
  EXPECT_LT(error_of(ElementType::kQ5_K), 0.040);
  EXPECT_LT(error_of(ElementType::kQ6_K), 0.020);
}

// Any bytes, so that scales, minima and levels take all the values they can have.
TEST(Blocks, bytes_of_k_types_mean_what_k_quants_py_reads) {
  const std::string folder = testing::TempDir() + "kvik_k_blocks_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string script =
      "import sys, numpy as np\n"
      "sys.path.insert(0, '" KVIK_SOURCE_DIR
      "/tools'); sys.dont_write_bytecode = True\n"
      "import k_quants as k\n"
      "for name, size, halves in ('q4_k', 144, (1, 3)), ('q5_k', 176, (1, 3)), ('q6_k', 210, "
      "(209,)):\n"
      "    raw = np.random.default_rng(3).integers(0, 256, (50, size), np.uint8)\n"
      "    for high_byte in halves: raw[:, high_byte] &= 0xbf\n"  // no infinities
      "    raw.tofile(name)\n"
      "    getattr(k, 'dequantize_' + name)(raw).tofile(name + '.values')\n";
  std::ofstream(folder + "/make.py") << script;
  const std::string command = "cd '" + folder + "' && /usr/bin/python3 make.py";
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (const ElementType type : {ElementType::kQ4_K, ElementType::kQ5_K, ElementType::kQ6_K}) {
    const auto bytes = read_file(folder + "/" + name_of(type));
    const auto raw = read_file(folder + "/" + name_of(type) + ".values");
    std::vector<double> want(raw.size() / sizeof(double));
    std::memcpy(want.data(), raw.data(), raw.size());
    ASSERT_EQ(want.size(), 50u * 256);
    std::vector<float> got(want.size());
    dequantize_row(type, bytes.data(), got);
    for (size_t i = 0; i < want.size(); ++i) {
      const double largest = 2 * 63 * 31 * 2.0;  // f16 scales are below 2
      ASSERT_NEAR(got[i], want[i], largest * 0x1p-23) << name_of(type) << " " << i;
    }
  }
  std::filesystem::remove_all(folder);
}

// The two are written apart from each other, in numpy and here.
TEST(Blocks, quantized_bytes_are_those_of_make_model_py) {
  const std::string folder = testing::TempDir() + "kvik_blocks_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string script =
      "import sys, numpy as np\n"
      "sys.path.insert(0, '" KVIK_SOURCE_DIR
      "/tools'); sys.dont_write_bytecode = True\n"
      "import make_model as m\n"
      "x = (np.random.default_rng(3).standard_normal((64, 160)) * 0.3).astype(np.float32)\n"
      "x[3, :32] = 0\n"
      "x.flat[512:800] = -0.5; x.flat[1024:1344] = 0.75; x[40] = 0; x[41] *= 1e4\n"
      "x.tofile('values')\n"
      "for name, t in m.TYPES.items(): open(name, 'wb').write(m.encode(x, t))\n";
  std::ofstream(folder + "/make.py") << script;
  const std::string command = "cd '" + folder + "' && /usr/bin/python3 make.py";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto raw = read_file(folder + "/values");
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  ASSERT_EQ(values.size(), 64u * 160);
  for (const ElementType type : kAllTypes) {
    EXPECT_TRUE(quantized(type, values) == read_file(folder + "/" + name_of(type)))
        << name_of(type);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvik
