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

#include "support/weight_types.h"
#include "tensor/blocks_32.h"
#include "tensor/group_blocks.h"
#include "tensor/half.h"
#include "tensor/k_blocks.h"
#include "tensor/tensor_view.h"

namespace kvik {
namespace {

using ::testing::Each;

using testing::weight_types;

std::vector<ElementType> types_of_files() {
  std::vector<ElementType> types = weight_types();
  std::erase_if(types, [](ElementType type) { return traits(type).gguf_id == kNoGgufId; });
  return types;
}

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

TEST(Blocks, a_hand_made_q4_1_block_adds_its_minimum) {
  BlockQ4_1 block{f32_to_f16(0.25f), f32_to_f16(-3.0f), {}};
  for (int i = 0; i < 16; ++i) block.nibbles[i] = static_cast<uint8_t>(i | ((15 - i) << 4));
  std::vector<float> out(32);
  dequantize_row(ElementType::kQ4_1, reinterpret_cast<const std::byte*>(&block), out);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 0.25f * static_cast<float>(i) - 3.0f);
    EXPECT_EQ(out[16 + i], 0.25f * static_cast<float>(15 - i) - 3.0f);
  }
}

TEST(Blocks, hand_made_blocks_of_five_bits_have_the_fifth_ones_apart) {
  BlockQ5_0 around{f32_to_f16(0.5f), {0x01, 0x80, 0x02, 0x00}, {}};
  BlockQ5_1 above{f32_to_f16(0.5f), f32_to_f16(7.0f), {0x01, 0x80, 0x02, 0x00}, {}};
  for (int i = 0; i < 16; ++i)
    around.nibbles[i] = above.nibbles[i] = static_cast<uint8_t>(0x30 | i);
  std::vector<float> got(32), got_above(32);
  dequantize_row(ElementType::kQ5_0, reinterpret_cast<const std::byte*>(&around), got);
  dequantize_row(ElementType::kQ5_1, reinterpret_cast<const std::byte*>(&above), got_above);
  for (int i = 0; i < 32; ++i) {
    const int fifth = i == 0 || i == 15 || i == 17 ? 16 : 0;
    const int level = (i < 16 ? i : 3) + fifth;
    EXPECT_EQ(got[i], 0.5f * static_cast<float>(level - 16)) << i;
    EXPECT_EQ(got_above[i], 0.5f * static_cast<float>(level) + 7.0f) << i;
  }
}

TEST(Blocks, hand_made_blocks_of_one_and_two_bits_have_the_first_value_lowest) {
  BlockQ1_0 one{f32_to_f16(0.5f), {0x05}};
  one.bits[15] = 0x80;
  std::vector<float> out(128);
  dequantize_row(ElementType::kQ1_0, reinterpret_cast<const std::byte*>(&one), out);
  for (size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(out[i], i == 0 || i == 2 || i == 127 ? 0.5f : -0.5f) << i;
  }
  BlockQ2_0 two{f32_to_f16(-0.25f), {0xe4}};  // levels 0, 1, 2 and 3
  out.resize(64);
  dequantize_row(ElementType::kQ2_0, reinterpret_cast<const std::byte*>(&two), out);
  EXPECT_EQ(out[0], 0.25f);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], -0.25f);
  EXPECT_EQ(out[3], -0.5f);
  EXPECT_EQ(out[4], 0.25f);
}

TEST(Blocks, nibbles_of_iq4_nl_are_numbers_of_uneven_levels) {
  BlockIQ4NL block{f32_to_f16(2.0f), {}};
  for (int i = 0; i < 16; ++i) block.nibbles[i] = static_cast<uint8_t>(i | ((15 - i) << 4));
  std::vector<float> out(32);
  dequantize_row(ElementType::kIQ4_NL, reinterpret_cast<const std::byte*>(&block), out);
  EXPECT_EQ(out[0], 2.0f * -127);
  EXPECT_EQ(out[7], 2.0f * -10);
  EXPECT_EQ(out[8], 2.0f * 1);
  EXPECT_EQ(out[16], 2.0f * 113);
  EXPECT_EQ(out[31], 2.0f * -127);
}

TEST(Blocks, a_hand_made_q2_k_block_has_a_scale_and_a_minimum_for_sixteen_values) {
  BlockQ2K block{{}, {}, f32_to_f16(0.5f), f32_to_f16(0.25f)};
  block.scales[3] = 0x52;   // values 48 … 63: scale 2, minimum 5
  block.scales[12] = 0x0f;  // values 192 … 207: scale 15, no minimum
  block.pairs[17] = 0x0c;   // value 32 + 17: level 3
  block.pairs[32] = 0x20;   // value 128 + 2 · 32: level 2
  std::vector<float> out(256);
  dequantize_row(ElementType::kQ2_K, reinterpret_cast<const std::byte*>(&block), out);
  EXPECT_EQ(out[48], -0.25f * 5);
  EXPECT_EQ(out[49], 0.5f * 2 * 3 - 0.25f * 5);
  EXPECT_EQ(out[192], 0.5f * 15 * 2);
  EXPECT_EQ(out[193], 0);
}

TEST(Blocks, a_hand_made_q3_k_block_counts_scales_from_32_and_levels_from_4) {
  BlockQ3K block{};
  block.scale = f32_to_f16(0.5f);
  block.low_scales[1] = 0x7e;   // low halves of sub-blocks 1 and 9: 14, 7
  block.high_scales[1] = 0x24;  // high bits of sub-blocks 1, 5, 9, 13: 0, 1, 2, 0
  block.third_bits[16] = 0x11;  // values 16 and 128 + 16
  block.pairs[16] = 0x03;       // value 16: low bits 3
  std::vector<float> out(256);
  dequantize_row(ElementType::kQ3_K, reinterpret_cast<const std::byte*>(&block), out);
  EXPECT_EQ(out[16], 0.5f * (14 - 32) * (7 - 4));
  EXPECT_EQ(out[17], 0.5f * (14 - 32) * (0 - 4));
  EXPECT_EQ(out[144], 0.5f * (7 + 2 * 16 - 32) * (4 - 4));
  EXPECT_EQ(out[145], 0.5f * (7 + 2 * 16 - 32) * (0 - 4));
  EXPECT_EQ(out[80], 0.5f * (1 * 16 - 32) * (0 - 4));  // sub-block 5
}

TEST(Blocks, a_hand_made_iq4_xs_block_has_a_scale_of_six_bits_for_32_values) {
  BlockIQ4XS block{};
  block.scale = f32_to_f16(0.5f);
  block.low_scales[1] = 0xb5;     // sub-blocks 2 and 3: 5, 11
  block.high_scales[0] = 3 << 6;  // sub-block 3: 3
  block.nibbles[3 * 16] = 0x9f;   // its values 0 and 16
  std::vector<float> out(256);
  dequantize_row(ElementType::kIQ4_XS, reinterpret_cast<const std::byte*>(&block), out);
  EXPECT_EQ(out[64], 0.5f * (5 - 32) * -127);
  EXPECT_EQ(out[96], 0.5f * (11 + 48 - 32) * 113);
  EXPECT_EQ(out[112], 0.5f * (11 + 48 - 32) * 13);
}

TEST(Blocks, hand_made_groups_of_integers_mean_scale_times_distance_from_zero) {
  BlockInt4<64> four{f32_to_f16(0.5f), 16, 0, {}};
  four.nibbles[0] = 0x2f;   // values 0 and 16
  four.nibbles[31] = 0x10;  // values 47 and 63
  std::vector<float> out(128);
  dequantize_row(ElementType::kInt4G64, reinterpret_cast<const std::byte*>(&four),
                 std::span(out).first(64));
  EXPECT_EQ(out[0], -0.5f);
  EXPECT_EQ(out[16], -7.0f);
  EXPECT_EQ(out[47], -8.0f);
  EXPECT_EQ(out[63], -7.5f);
  BlockInt8<128> eight{f32_to_f16(0.25f), 256, {}};
  eight.quants[127] = 255;
  dequantize_row(ElementType::kInt8G128, reinterpret_cast<const std::byte*>(&eight), out);
  EXPECT_EQ(out[0], -64.0f);
  EXPECT_EQ(out[127], -0.25f);
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
  for (const ElementType type : weight_types()) {
    EXPECT_THAT(round_trip(type, zeros), Each(0.0f)) << name_of(type);
  }
}

TEST(Blocks, types_that_models_are_made_of_can_be_dequantized) {
  for (const ElementTraits& t : element_types()) {
    EXPECT_TRUE(t.file_type == kNoFileType || can_dequantize(t.type)) << t.name;
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
  block.scales.bytes[1] = 0x85;  // sub-block 1: scale 5; sub-block 5: the two high bits are 2
  block.scales.bytes[5] = 0x43;  // sub-block 1: minimum 3; sub-block 5: the two high bits are 1
  block.scales.bytes[9] = 0x7e;  // sub-block 5: scale 2 · 16 + 14, minimum 1 · 16 + 7
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

TEST(Blocks, every_type_errs_by_what_its_bits_allow) {
  const auto values = normal_values(256 * 64);
  const auto error_of = [&](ElementType type) {
    const auto out = round_trip(type, values);
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) squares += std::pow(out[i] - values[i], 2);
    return std::sqrt(squares / static_cast<double>(values.size()));
  };
  for (const ElementType type : weight_types()) {
    if (!block_format(type)) continue;
    const ElementTraits& t = traits(type);
    const bool has_three_levels = block_format(type)->top == 2;
    const double bits = has_three_levels ? std::log2(3) : 8.0 * t.block_bytes / t.block_elements;
    EXPECT_LT(error_of(type), 2.8 * std::exp2(-bits)) << name_of(type);
  }
}

// Any bytes, so that scales, minima and levels take all the values they can have.
TEST(Blocks, any_bytes_mean_what_numpy_reads) {
  constexpr size_t kBlocks = 50;
  const std::string folder = ::testing::TempDir() + "kvik_any_blocks_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::string names;
  std::mt19937 random(3);
  for (const ElementType type : types_of_files()) {
    const ElementTraits& t = traits(type);
    if (t.block_elements == 1) continue;
    std::vector<std::byte> bytes(t.row_header_bytes + kBlocks * t.block_bytes);
    testing::make_random_row(type, bytes, random);
    std::ofstream(folder + "/" + t.name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    names += std::string(names.empty() ? "" : " ") + t.name;
  }
  std::ofstream(folder + "/make.py")
      << "import sys, numpy as np\n"
         "sys.path.insert(0, '" KVIK_SOURCE_DIR
         "/tools/oracle'); sys.dont_write_bytecode = True\n"
         "import gguf_file as m, reference_logits as r\n"
         "for name in '" +
             names +
             "'.split():\n"
             "    raw, t = np.fromfile(name, np.uint8), m.TYPES[name]\n"
             "    n = len(raw) // m.BLOCK[t][1] * m.BLOCK[t][0]\n"
             "    r.decode(raw, (1, n), t).tofile(name + '.values')\n";
  const std::string command = "cd '" + folder + "' && /usr/bin/python3 make.py";
  ASSERT_EQ(std::system(command.c_str()), 0);
  for (const ElementType type : types_of_files()) {
    if (traits(type).block_elements == 1) continue;
    const auto bytes = read_file(folder + "/" + name_of(type));
    const auto raw = read_file(folder + "/" + name_of(type) + ".values");
    std::vector<double> want(raw.size() / sizeof(double));
    std::memcpy(want.data(), raw.data(), raw.size());
    ASSERT_EQ(want.size(), kBlocks * traits(type).block_elements);
    std::vector<float> got(want.size());
    dequantize_row(type, bytes.data(), got);
    for (size_t i = 0; i < want.size(); ++i) {
      // Each value is rounded once: its products have 25 bits at most, its sums more.
      ASSERT_EQ(got[i], static_cast<float>(want[i])) << name_of(type) << " " << i;
    }
  }
  std::filesystem::remove_all(folder);
}

// The two are written apart from each other, in numpy and here.
TEST(Blocks, quantized_bytes_are_those_of_gguf_file_py) {
  const std::string folder = ::testing::TempDir() + "kvik_blocks_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string script =
      "import sys, numpy as np\n"
      "sys.path.insert(0, '" KVIK_SOURCE_DIR
      "/tools/oracle'); sys.dont_write_bytecode = True\n"
      "import gguf_file as m\n"
      "x = (np.random.default_rng(3).standard_normal((64, 160)) * 0.3).astype(np.float32)\n"
      "x[3, :32] = 0\n"
      "x.flat[512:800] = -0.5; x.flat[1024:1344] = 0.75; x[40] = 0; x[41] *= 1e4\n"
      "x.tofile('values')\n"
      "for name, t in m.TYPES.items(): open(name, 'wb').write(m.encode(x.reshape(1, -1), t))\n";
  std::ofstream(folder + "/make.py") << script;
  const std::string command = "cd '" + folder + "' && /usr/bin/python3 make.py";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto raw = read_file(folder + "/values");
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  ASSERT_EQ(values.size(), 64u * 160);
  for (const ElementType type : types_of_files()) {
    EXPECT_TRUE(quantized(type, values) == read_file(folder + "/" + name_of(type)))
        << name_of(type);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvik
