// 8-bit floats and their scales in a folder's tensors become tensors of blocks or of bf16.
#include "format/hf/floats/block_floats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "format/safetensors.h"
#include "format/safetensors_writer.h"
#include "tensor/blocks.h"

namespace kvik::hf {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::byte kOne{0x38};  // E4M3

std::span<const std::byte> ones(size_t n) {
  static const std::vector<std::byte> all(4096, kOne);
  return std::span(all).first(n);
}

std::vector<std::byte> exponents(std::initializer_list<int> powers) {
  std::vector<std::byte> out;
  for (const int power : powers) out.push_back(static_cast<std::byte>(power + 127));
  return out;
}

// The joined tensors of a folder. The writer must outlive it.
struct Joined {
  Joined(const SafetensorsWriter& file, const BlockFloats& how) : bytes(file.bytes()) {
    auto base = open_safetensors_bytes("m", bytes);
    EXPECT_TRUE(base.has_value());
    const auto joined = join_block_floats(**base, how);
    if (joined) {
      source = std::move(*base);
    } else {
      error = joined.error().message;
    }
  }

  // Returns the rows of the only tensor, [n][columns].
  std::vector<std::vector<float>> rows() {
    const TensorInfo& info = source->tensors()[0];
    const auto data = source->read(0);
    if (!data) {
      error = data.error().message;
      return {};
    }
    std::vector<std::vector<float>> out(info.n_elements() / info.shape.back());
    for (size_t row = 0; row < out.size(); ++row) {
      out[row].resize(info.shape.back());
      dequantize_row(info.type, data->data() + row * (data->size() / out.size()), out[row]);
    }
    return out;
  }

  std::vector<std::byte> bytes;
  std::unique_ptr<ModelSource> source;
  std::string error = "none";
};

TEST(BlockFloats, each_matrix_of_a_stack_has_a_grid_of_its_own) {
  // Two matrices of 3 rows; the second block of rows is incomplete.
  SafetensorsWriter file;
  file.tensor("experts.up", "F8_E4M3", {2, 3, 64}, ones(384))
      .floats("experts.up_scale_inv", {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})
      .floats("experts.up_activation_scale", {2}, {9, 9});
  Joined joined(file, {.block_rows = 2, .block_cols = 32});
  ASSERT_EQ(joined.error, "none");
  ASSERT_EQ(joined.source->tensors().size(), 1u);
  EXPECT_EQ(joined.source->tensors()[0].type, ElementType::kFp8G32);
  const auto rows = joined.rows();
  const float want[6][2] = {{1, 2}, {1, 2}, {3, 4}, {5, 6}, {5, 6}, {7, 8}};
  for (int row = 0; row < 6; ++row) {
    EXPECT_EQ(rows[row][0], want[row][0]) << row;
    EXPECT_EQ(rows[row][31], want[row][0]) << row;
    EXPECT_EQ(rows[row][32], want[row][1]) << row;
    EXPECT_EQ(rows[row][63], want[row][1]) << row;
  }
}

TEST(BlockFloats, scales_may_be_exponents_of_two) {
  SafetensorsWriter file;
  file.tensor("a.weight", "F8_E4M3", {2, 128}, ones(256))
      .tensor("a.weight_scale_inv", "F8_E8M0", {2, 1}, exponents({-127, 118}));
  Joined joined(file, {.block_rows = 1, .block_cols = 128});
  const auto rows = joined.rows();
  ASSERT_EQ(joined.error, "none");
  EXPECT_THAT(rows[0], Each(0x1p-127f));
  EXPECT_THAT(rows[1], Each(0x1p118f));
}

TEST(BlockFloats, scales_may_have_the_name_of_the_matrix_without_weight) {
  SafetensorsWriter file;
  file.tensor("attn.wq_a.weight", "F8_E4M3", {2, 128}, ones(256))
      .tensor("attn.wq_a.scale", "F8_E8M0", {2, 1}, exponents({-3, 4}))
      .floats("router.scale", {2}, {1, 2});
  Joined joined(file, {.block_rows = 1, .block_cols = 128});
  const auto rows = joined.rows();
  ASSERT_EQ(joined.error, "none");
  ASSERT_EQ(joined.source->tensors().size(), 2u);
  EXPECT_THAT(rows[0], Each(0x1p-3f));
  EXPECT_THAT(rows[1], Each(0x1p4f));
}

TEST(BlockFloats, an_exponent_that_is_no_number_or_too_large_is_refused) {
  for (const int power : {128, 127, 120}) {
    SafetensorsWriter file;
    file.tensor("a.weight", "F8_E4M3", {1, 32}, ones(32))
        .tensor("a.weight_scale_inv", "F8_E8M0", {1, 1}, exponents({power}));
    Joined joined(file, {.block_rows = 1, .block_cols = 32});
    joined.rows();
    EXPECT_THAT(joined.error, HasSubstr("'a.weight_scale_inv' holds")) << power;
    EXPECT_THAT(joined.error, HasSubstr("expected scales")) << power;
  }
}

TEST(BlockFloats, one_scale_is_for_a_row_a_matrix_or_a_stack) {
  SafetensorsWriter of_rows;
  of_rows.tensor("a.weight", "F8_E4M3", {2, 128}, ones(256))
      .floats("a.weight_scale", {2, 1}, {0.5f, 3});
  Joined by_row(of_rows, {.block_rows = 1});
  EXPECT_EQ(by_row.source->tensors()[0].type, ElementType::kFp8);
  EXPECT_THAT(by_row.rows()[0], Each(0.5f));
  EXPECT_THAT(by_row.rows()[1], Each(3));

  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{2, 1, 1}, {2}, {}}) {
    SafetensorsWriter stack;
    const std::vector<float> scales =
        shape.empty() ? std::vector<float>{2} : std::vector{2.0f, 2.0f};
    stack.tensor("up", "F8_E4M3", {2, 1, 32}, ones(64)).floats("up_scale_inv", shape, scales);
    Joined joined(stack, {});
    ASSERT_EQ(joined.error, "none");
    for (const auto& row : joined.rows()) EXPECT_THAT(row, Each(2));
  }
}

TEST(BlockFloats, a_grid_that_does_not_fit_its_stack_is_refused_by_name) {
  for (const std::vector<uint64_t>& shape :
       {std::vector<uint64_t>{4, 2}, {2, 4, 1}, {1, 2, 4}, {8}, {2, 2, 2, 1}}) {
    SafetensorsWriter file;
    file.tensor("up", "F8_E4M3", {2, 3, 64}, ones(384))
        .floats("up_scale_inv", shape, std::vector<float>(8, 1));
    const Joined joined(file, {.block_rows = 2, .block_cols = 32});
    EXPECT_THAT(joined.error, HasSubstr("'up_scale_inv' has the shape"));
    EXPECT_THAT(joined.error, HasSubstr("expected [2, 2, 2]"));
  }
  SafetensorsWriter halves;
  halves.tensor("up", "F16", {1, 1, 32}, ones(64)).floats("up_scale_inv", {1, 1, 1}, {1});
  EXPECT_THAT(Joined(halves, {}).error, HasSubstr("expected a matrix of bytes"));
}

// Returns bytes of two 4-bit floats each: all 256 of them, over and over.
std::vector<std::byte> all_pairs(size_t n) {
  std::vector<std::byte> out;
  for (size_t i = 0; i < n; ++i) out.push_back(static_cast<std::byte>(i * 7));
  return out;
}

// Returns the value of column `col` of bytes of which each holds two columns, the first in its low
// half.
float e2m1_at(std::span<const std::byte> pairs, size_t col, int power) {
  constexpr float kLevels[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const auto bits = std::to_integer<uint32_t>(pairs[col / 2]) >> (col % 2 * 4) & 15;
  return std::ldexp((bits & 8) != 0 ? -kLevels[bits & 7] : kLevels[bits & 7], power);
}

constexpr BlockFloats kFp4Experts{.block_rows = 1, .block_cols = 128, .has_fp4_experts = true};

TEST(BlockFloats, experts_of_4_bits_beside_others_of_8_keep_their_values) {
  const std::vector<std::byte> pairs = all_pairs(256);
  SafetensorsWriter file;
  file.tensor("layers.0.ffn.experts.3.w1.weight", "I8", {4, 64}, pairs)
      .tensor("layers.0.ffn.experts.3.w1.scale", "F8_E8M0", {4, 4},
              exponents({0, 1, -1, 2, 3, -3, 126, -127, 9, 8, 7, 6, 5, 4, 3, 2}))
      .tensor("layers.0.ffn.shared_experts.w1.weight", "F8_E4M3", {2, 128}, ones(256))
      .tensor("layers.0.ffn.shared_experts.w1.scale", "F8_E8M0", {2, 1}, exponents({-3, 4}));
  Joined joined(file, kFp4Experts);
  ASSERT_EQ(joined.error, "none");
  ASSERT_EQ(joined.source->tensors().size(), 2u);
  const TensorInfo& info = joined.source->tensors()[0];
  EXPECT_EQ(info.name, "layers.0.ffn.experts.3.w1.weight");
  EXPECT_EQ(info.type, ElementType::kMXFP4);
  EXPECT_EQ(info.shape, (std::vector<uint64_t>{4, 128}));
  EXPECT_EQ(joined.source->tensors()[1].type, ElementType::kFp8);
  constexpr int kPowers[] = {0, 1, -1, 2, 3, -3, 126, -127, 9, 8, 7, 6, 5, 4, 3, 2};
  const auto rows = joined.rows();
  ASSERT_EQ(rows.size(), 4u) << joined.error;
  for (size_t i = 0; i < 512; ++i) {
    EXPECT_EQ(rows[i / 128][i % 128], e2m1_at(pairs, i, kPowers[i / 32])) << i;
  }
}

TEST(BlockFloats, rows_of_a_stack_of_experts_of_4_bits_are_read_alone) {
  const std::vector<std::byte> pairs = all_pairs(96);
  SafetensorsWriter file;
  file.tensor("mlp.experts.down_proj", "I8", {2, 3, 16}, pairs)
      .tensor("mlp.experts.down_proj_scale_inv", "U8", {2, 3, 1}, exponents({0, 1, 2, 3, 4, 5}));
  Joined joined(file, kFp4Experts);
  ASSERT_EQ(joined.error, "none");
  ASSERT_EQ(joined.source->tensors().size(), 1u);
  const TensorInfo& info = joined.source->tensors()[0];
  EXPECT_EQ(info.shape, (std::vector<uint64_t>{2, 3, 32}));
  const uint64_t row_bytes = info.n_bytes / 6;
  for (const int row : {4, 1, 5}) {
    const auto bytes = joined.source->read_range(0, row * row_bytes, row_bytes);
    ASSERT_TRUE(bytes.has_value());
    std::vector<float> values(32);
    dequantize_row(info.type, bytes->data(), values);
    for (size_t col = 0; col < 32; ++col) {
      EXPECT_EQ(values[col], e2m1_at(pairs, row * 32 + col, row)) << row << " " << col;
    }
    joined.source->release(0);
  }
}

TEST(BlockFloats, experts_of_4_bits_that_cannot_be_are_refused_by_name) {
  const auto error_of = [](const std::vector<uint64_t>& shape, const std::string& type,
                           const std::vector<uint64_t>& of_scales, bool has_scales = true) {
    SafetensorsWriter file;
    const std::vector<std::byte> zeros(4096);
    uint64_t n = 1, n_scales = type == "F32" ? 4 : 1;
    for (const uint64_t axis : shape) n *= axis;
    for (const uint64_t axis : of_scales) n_scales *= axis;
    file.tensor("ffn.experts.0.w1.weight", "I8", shape, std::span(zeros).first(n));
    if (has_scales) {
      file.tensor("ffn.experts.0.w1.scale", type, of_scales, std::span(zeros).first(n_scales));
    }
    return Joined(file, kFp4Experts).error;
  };
  EXPECT_THAT(error_of({4, 64}, "F8_E8M0", {1, 1}),
              HasSubstr("'ffn.experts.0.w1.scale' has the shape [1, 1], expected [4, 4]"));
  EXPECT_THAT(error_of({4, 24}, "F8_E8M0", {4, 1}),
              HasSubstr("'ffn.experts.0.w1.weight' has rows of 48 4-bit floats, expected a "
                        "multiple of 32"));
  EXPECT_THAT(error_of({4, 64}, "F32", {4, 4}),
              HasSubstr("'ffn.experts.0.w1.scale' is of type F32, expected F8_E8M0 or U8"));
  EXPECT_THAT(error_of({4, 64}, "F8_E8M0", {}, false),
              HasSubstr("'ffn.experts.0.w1.scale' is missing beside 'ffn.experts.0.w1.weight'"));
}

TEST(BlockFloats, types_that_are_not_the_small_floats_of_the_config_are_refused_by_name) {
  const auto error_of = [](const std::string& name, const BlockFloats& how, const std::string& type,
                           const std::string& of_scales) {
    SafetensorsWriter file;
    const uint64_t n_scales = how.has_fp4_experts                     ? 4
                              : how.kind == BlockFloats::Kind::kNvFp4 ? 8
                                                                      : 1;
    const std::string scales = how.kind == BlockFloats::Kind::kNvFp4 ? ".weight_scale" : ".scale";
    file.tensor(name + ".weight", type, {1, 64}, ones(64))
        .tensor(name + scales, of_scales, {1, n_scales}, ones(n_scales))
        .floats(name + ".weight_scale_2", {1}, {1});
    return Joined(file, how).error;
  };
  constexpr BlockFloats kFp8{.block_rows = 1, .block_cols = 128};
  constexpr BlockFloats kNvFp4{.kind = BlockFloats::Kind::kNvFp4};
  for (const char* type : {"I8", "U8", "F8_E8M0", "BOOL"}) {
    EXPECT_EQ(error_of("a", kFp8, type, "F8_E8M0"),
              fmt::format("tensor 'a.weight' is of type {}, expected F8_E4M3", type));
  }
  for (const char* type : {"I8", "F8_E4M3"}) {
    EXPECT_EQ(error_of("a", kFp8, "F8_E4M3", type),
              fmt::format("tensor 'a.scale' is of type {}, expected F8_E8M0 or U8 or F32 or F16 or "
                          "BF16",
                          type));
    EXPECT_EQ(
        error_of("ffn.experts.0.a", kFp4Experts, "I8", type),
        fmt::format("tensor 'ffn.experts.0.a.scale' is of type {}, expected F8_E8M0 or U8", type));
  }
  for (const char* type : {"F8_E4M3", "F8_E8M0"}) {
    EXPECT_EQ(
        error_of("ffn.experts.0.a", kFp4Experts, type, "F8_E8M0"),
        fmt::format("tensor 'ffn.experts.0.a.weight' is of type {}, expected I8 or U8", type));
    EXPECT_EQ(error_of("a", kNvFp4, type, "F8_E4M3"),
              fmt::format("tensor 'a.weight' is of type {}, expected I8 or U8", type));
  }
  EXPECT_EQ(error_of("a", kNvFp4, "U8", "F8_E8M0"),
            "tensor 'a.weight_scale' is of type F8_E8M0, expected F8_E4M3");
  EXPECT_EQ(error_of("a", kFp8, "F8_E4M3", "U8"), "none");
  EXPECT_EQ(error_of("ffn.experts.0.a", kFp4Experts, "U8", "U8"), "none");
  EXPECT_EQ(error_of("a", kNvFp4, "U8", "F8_E4M3"), "none");
}

TEST(BlockFloats, a_missing_half_of_a_pair_is_named) {
  constexpr BlockFloats kFp8{.block_rows = 1, .block_cols = 128};
  for (const auto& [other, ending] :
       {std::pair("b.scale", ".scale"), std::pair("b.weight_scale", ".weight_scale"),
        std::pair("b.weight_scale_inv", ".weight_scale_inv")}) {
    SafetensorsWriter file;
    file.tensor("a.weight", "F8_E4M3", {1, 64}, ones(64))
        .tensor("b.weight", "F8_E4M3", {1, 64}, ones(64))
        .tensor(other, "F8_E8M0", {1, 1}, exponents({0}));
    EXPECT_EQ(Joined(file, kFp8).error,
              fmt::format("tensor 'a{}' is missing beside 'a.weight'", ending));
  }
  for (const char* name : {"ffn.experts.0.w1", "attn.wq_a"}) {
    SafetensorsWriter file;
    file.tensor(fmt::format("{}.scale", name), "F8_E8M0", {1, 1}, exponents({0}));
    EXPECT_EQ(Joined(file, kFp4Experts).error,
              fmt::format("tensor '{0}.weight' is missing beside '{0}.scale'", name));
  }
}

TEST(BlockFloats, a_scale_without_a_matrix_stays_a_tensor) {
  SafetensorsWriter file;
  file.floats("router.per_expert_scale", {2}, {1, 2}).floats("lone.weight_scale_inv", {1}, {1});
  const Joined joined(file, {});
  ASSERT_EQ(joined.source->tensors().size(), 1u);
  EXPECT_EQ(joined.source->tensors()[0].name, "router.per_expert_scale");
}

}  // namespace
}  // namespace kvik::hf
