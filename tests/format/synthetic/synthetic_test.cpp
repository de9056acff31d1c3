#include "format/synthetic/synthetic.h"
#include "format/synthetic/synthetic_layout.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tensor/block_format.h"
#include "tensor/blocks.h"
#include "tensor/grids.h"

namespace kvik {
namespace {

using ::testing::HasSubstr;

struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;
};

MeanAndDeviation mean_and_deviation(std::span<const float> values) {
  MeanAndDeviation m;
  for (const float v : values) m.mean += v / static_cast<double>(values.size());
  double squares = 0;
  for (const float v : values) squares += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(squares / static_cast<double>(values.size()));
  return m;
}

std::vector<std::byte> bytes_of_tensor(ModelSource& source, std::string_view name) {
  const auto index = source.find(name);
  if (!index) {
    ADD_FAILURE() << "no tensor " << name;
    return {};
  }
  const auto bytes = source.read(*index);
  if (!bytes) {
    ADD_FAILURE() << bytes.error().message;
    return {};
  }
  return {bytes->begin(), bytes->end()};
}

std::vector<float> values_of(ModelSource& source, std::string_view name) {
  const auto bytes = bytes_of_tensor(source, name);
  if (bytes.empty()) return {};
  const TensorInfo& info = source.tensors()[*source.find(name)];
  std::vector<float> values(info.n_elements());
  const uint64_t n_cols = info.shape.back(), row_bytes = info.n_bytes * n_cols / values.size();
  for (uint64_t row = 0; row < values.size() / n_cols; ++row) {
    dequantize_row(info.type, bytes.data() + row * row_bytes,
                   std::span(values).subspan(row * n_cols, n_cols));
  }
  return values;
}

std::unique_ptr<ModelSource> made(std::string_view spec) {
  auto source = make_synthetic(spec);
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return nullptr;
  }
  return std::move(*source);
}

TEST(Synthetic, the_type_is_q8_0_where_it_is_left_out) {
  EXPECT_EQ(made("synthetic:test-llama")->label(), "synthetic:test-llama:q8_0");
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q4_0"}) {
    const auto source = made(fmt::format("synthetic:test-llama:{}", type));
    const TensorInfo& embedding = source->tensors()[*source->find("token_embd.weight")];
    EXPECT_STREQ(name_of(embedding.type), type);
    EXPECT_EQ(source->tensors()[*source->find("output_norm.weight")].type, ElementType::kF32);
  }
}

ElementType type_of(const ModelSource& source, std::string_view tensor) {
  return source.tensors()[*source.find(tensor)].type;
}

TEST(Synthetic, a_mix_gives_more_bits_to_what_matters_more_as_llama_cpp_does) {
  const auto source = made("synthetic:tinyllama-1.1b:q4_k_m");
  EXPECT_EQ(type_of(*source, "token_embd.weight"), ElementType::kQ4_K);
  EXPECT_EQ(type_of(*source, "output.weight"), ElementType::kQ6_K);
  const std::set<int> more = {0, 1, 4, 7, 10, 13, 16, 19, 20, 21};  // of 22 layers
  for (int layer = 0; layer < 22; ++layer) {
    const ElementType expected = more.contains(layer) ? ElementType::kQ6_K : ElementType::kQ4_K;
    EXPECT_EQ(type_of(*source, fmt::format("blk.{}.attn_v.weight", layer)), expected) << layer;
    EXPECT_EQ(type_of(*source, fmt::format("blk.{}.ffn_down.weight", layer)), expected) << layer;
    EXPECT_EQ(type_of(*source, fmt::format("blk.{}.attn_q.weight", layer)), ElementType::kQ4_K);
    EXPECT_EQ(type_of(*source, fmt::format("blk.{}.ffn_up.weight", layer)), ElementType::kQ4_K);
  }
  const auto tied = made("synthetic:llama-3.2-1b:q4_k_m");
  EXPECT_EQ(type_of(*tied, "token_embd.weight"), ElementType::kQ6_K);
}

TEST(Synthetic, rows_that_are_no_whole_super_blocks_fall_back_to_q8_0) {
  const auto source = made("synthetic:qwen2.5-0.5b:q4_k_m");  // model_dim 896, ffn_dim 4864
  EXPECT_EQ(type_of(*source, "blk.0.attn_q.weight"), ElementType::kQ8_0);
  EXPECT_EQ(type_of(*source, "blk.0.ffn_down.weight"), ElementType::kQ6_K);
  EXPECT_EQ(type_of(*source, "blk.4.ffn_down.weight"), ElementType::kQ4_K);
}

TEST(Synthetic, an_unknown_preset_is_not_found_and_the_known_are_listed) {
  const auto source = make_synthetic("synthetic:llama-9");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(source.error().message, HasSubstr("'llama-9'"));
  for (const ModelPreset& preset : model_presets()) {
    EXPECT_THAT(source.error().message, HasSubstr(preset.name));
  }
}

TEST(Synthetic, a_type_that_cannot_be_made_is_an_invalid_argument) {
  for (const char* type : {"q8_k", "i8", "", "Q8_0", "q8_0:more"}) {
    const auto source = make_synthetic(fmt::format("synthetic:test-llama:{}", type));
    ASSERT_FALSE(source) << type;
    EXPECT_EQ(source.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(source.error().message, HasSubstr(fmt::format("'{}'", type)));
  }
  const auto other = make_synthetic("tinyllama-1.1b");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
}

TEST(Synthetic, every_preset_describes_itself_without_making_a_weight) {
  for (const ModelPreset& preset : model_presets()) {
    const auto source = made(fmt::format("synthetic:{}:q4_0", preset.name));
    const auto key = [&](const char* name) {
      const auto value =
          source->metadata().get_uint(fmt::format("{}.{}", preset.architecture, name));
      return value && *value ? **value : 0;
    };
    EXPECT_EQ(key("block_count"), preset.n_layers);
    EXPECT_EQ(key("embedding_length"), preset.model_dim);
    EXPECT_EQ(key("attention.sliding_window"), preset.window);
    const auto tokens = source->metadata().get_strings("tokenizer.ggml.tokens");
    ASSERT_TRUE(tokens && *tokens);
    EXPECT_EQ((*tokens)->size(), preset.n_vocab);
    EXPECT_EQ(source->tensors()[*source->find("token_embd.weight")].shape,
              (std::vector<uint64_t>{preset.n_vocab, preset.model_dim}));
    EXPECT_EQ(source->find("output.weight").has_value(), !preset.tied_head) << preset.name;
  }
}

TEST(Synthetic, the_vocabulary_is_padded_with_unused_tokens) {
  const auto source = made("synthetic:tinyllama-1.1b");
  const Metadata& metadata = source->metadata();
  const auto tokens = metadata.get_strings("tokenizer.ggml.tokens");
  const auto scores = metadata.get_floats("tokenizer.ggml.scores");
  const auto kinds = metadata.get_ints("tokenizer.ggml.token_type");
  ASSERT_TRUE(tokens && *tokens && scores && *scores && kinds && *kinds);
  ASSERT_EQ((*tokens)->size(), 32000u);
  ASSERT_EQ((*scores)->size(), 32000u);
  ASSERT_EQ((*kinds)->size(), 32000u);
  EXPECT_EQ((**tokens)[4], "<0x00>");
  EXPECT_EQ((**tokens)[259], "<0xFF>");
  EXPECT_EQ((**tokens)[260], "<unused_0>");
  EXPECT_EQ((**tokens)[31999], "<unused_31739>");
  EXPECT_EQ((**scores)[259], 0);
  EXPECT_EQ((**scores)[260], -1e4);
  EXPECT_EQ(std::set<std::string>((*tokens)->begin(), (*tokens)->end()).size(), 32000u);
  EXPECT_EQ((**kinds)[259], 6);
  EXPECT_EQ((**kinds)[260], 5);
}

TEST(Synthetic, a_model_may_be_cut_to_its_first_layers) {
  const auto source = made("synthetic:llama-3.1-8b:q4_0:3");
  EXPECT_EQ(source->label(), "synthetic:llama-3.1-8b:q4_0:3");
  EXPECT_EQ(**source->metadata().get_uint("llama.block_count"), 3u);
  EXPECT_TRUE(source->find("blk.2.ffn_up.weight").has_value());
  EXPECT_FALSE(source->find("blk.3.ffn_up.weight").has_value());
  for (const char* bad : {"q4_0:0", "q4_0:33", "q4_0:x", "q4_0:", "q4_0:-1", "q4_0:99999999999"}) {
    const auto refused = make_synthetic(fmt::format("synthetic:llama-3.1-8b:{}", bad));
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Synthetic, the_same_name_gives_the_same_weights_whatever_was_read_before) {
  const auto one = made("synthetic:tinyllama-1.1b:q4_0");
  const auto two = made("synthetic:tinyllama-1.1b:q4_0");
  for (const char* name :
       {"blk.0.attn_q.weight", "blk.0.attn_norm.weight", "blk.3.attn_k.weight"}) {
    bytes_of_tensor(*one, name);
    one->release(*one->find(name));
  }
  for (const char* name :
       {"blk.3.attn_k.weight", "blk.0.attn_norm.weight", "blk.0.attn_q.weight"}) {
    EXPECT_EQ(bytes_of_tensor(*one, name), bytes_of_tensor(*two, name)) << name;
  }
}

TEST(Synthetic, a_range_is_what_the_whole_has_there) {
  const auto one = made("synthetic:tinyllama-1.1b:q4_0");
  const auto two = made("synthetic:tinyllama-1.1b:q4_0");
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_norm.weight"}) {
    const size_t index = *one->find(name);
    const TensorInfo& info = one->tensors()[index];
    const uint64_t n_rows = info.shape.size() == 2 ? info.shape[0] : 1;
    const uint64_t row_bytes = info.n_bytes / n_rows;
    const std::vector<std::byte> whole = bytes_of_tensor(*two, name);
    for (const auto& [first, n] : {std::pair<uint64_t, uint64_t>{n_rows - 1, 1},
                                   {0, n_rows},
                                   {n_rows / 2, n_rows - n_rows / 2},
                                   {0, 1}}) {
      const auto range = one->read_range(index, first * row_bytes, n * row_bytes);
      ASSERT_TRUE(range);
      EXPECT_EQ(0, std::memcmp(range->data(), whole.data() + first * row_bytes, range->size()));
      EXPECT_EQ(range->size(), n * row_bytes);
    }
  }
}

TEST(Synthetic, tensors_presets_and_types_differ) {
  const auto source = made("synthetic:tinyllama-1.1b");
  EXPECT_NE(bytes_of_tensor(*source, "blk.0.attn_k.weight"),
            bytes_of_tensor(*source, "blk.0.attn_v.weight"));
  EXPECT_NE(bytes_of_tensor(*source, "blk.0.attn_k.weight"),
            bytes_of_tensor(*source, "blk.1.attn_k.weight"));
  EXPECT_NE(bytes_of_tensor(*source, "blk.0.attn_norm.weight"),
            bytes_of_tensor(*source, "blk.0.ffn_norm.weight"));
  EXPECT_NE(bytes_of_tensor(*made("synthetic:test-llama:f32"), "blk.0.attn_norm.weight"),
            bytes_of_tensor(*made("synthetic:test-qwen3:f32"), "blk.0.attn_norm.weight"));
}

void expect_rows_to_differ(std::span<const std::byte> bytes, uint64_t n_rows) {
  const size_t row_bytes = bytes.size() / n_rows;
  std::set<std::string_view> rows;
  for (uint64_t r = 0; r < n_rows; ++r) {
    rows.emplace(reinterpret_cast<const char*>(bytes.data()) + r * row_bytes, row_bytes);
  }
  EXPECT_EQ(rows.size(), n_rows);
}

TEST(Synthetic, no_two_rows_of_a_matrix_are_equal) {
  const auto real = made("synthetic:tinyllama-1.1b:q4_0");
  expect_rows_to_differ(bytes_of_tensor(*real, "output.weight"), 32000);
  const auto test = made("synthetic:test-llama:q4_0");
  expect_rows_to_differ(bytes_of_tensor(*test, "output.weight"), 260);
}

TEST(Synthetic, values_have_the_mean_and_deviation_of_their_tensor) {
  for (const SyntheticType& made_of : synthetic_types()) {
    const char* const type = made_of.name;
    const auto source = made(fmt::format("synthetic:tinyllama-1.1b:{}", type));
    const auto expect = [&](const char* name, double mean, double deviation, double tolerance) {
      const MeanAndDeviation m = mean_and_deviation(values_of(*source, name));
      EXPECT_NEAR(m.mean, mean, tolerance * deviation) << type << " " << name;
      EXPECT_NEAR(m.deviation, deviation, tolerance * deviation) << type << " " << name;
    };
    // Types with fewer than three bits, codebooks and power-of-two scales change the deviation by
    // quantization noise, those with two or three levels most.
    const ElementTraits& most = traits(made_of.most);
    const BlockFormat* format = block_format(most.type);
    const bool has_codebook = format && format->codebook.levels;
    const bool has_three_levels =
        format && (format->codebook.digits == kIq1Digits || format->top == 2);
    const bool has_noise = has_codebook || most.type == ElementType::kMXFP4 ||
                           8.0 * most.block_bytes / most.block_elements < 3;
    const bool has_two_levels = most.type == ElementType::kQ1_0;
    const double tolerance = has_two_levels     ? 0.21
                             : has_three_levels ? 0.15
                             : has_noise        ? 0.08
                                                : 0.015;
    expect("blk.0.attn_k.weight", 0, 1 / std::sqrt(2048.0), tolerance);
    expect("blk.0.ffn_down.weight", 0, 1 / std::sqrt(5632.0), tolerance);
    expect("blk.0.attn_norm.weight", 1, 0.1, 0.1);
  }
  const auto source = made("synthetic:test-mha:f32");
  EXPECT_NEAR(mean_and_deviation(values_of(*source, "token_embd.weight")).deviation, 1, 0.02);
  EXPECT_NEAR(mean_and_deviation(values_of(*source, "output.weight")).deviation,
              4 / std::sqrt(128.0), 0.01);
  const auto gemma = made("synthetic:test-gemma2:f32");
  EXPECT_NEAR(mean_and_deviation(values_of(*gemma, "token_embd.weight")).deviation, 0.125, 0.005);
}

TEST(Synthetic, values_are_normally_distributed) {
  const auto source = made("synthetic:tinyllama-1.1b:f32");
  const auto values = values_of(*source, "blk.0.attn_q.weight");
  const double deviation = 1 / std::sqrt(2048.0);
  const std::vector<std::pair<double, double>> shares = {
      {0.5, 0.38292}, {1, 0.68269}, {2, 0.95450}, {3, 0.99730}};  // of the normal distribution
  for (const auto& [width, share] : shares) {
    size_t n_inside = 0;
    for (const float v : values) n_inside += std::fabs(v) <= width * deviation;
    EXPECT_NEAR(static_cast<double>(n_inside) / static_cast<double>(values.size()), share, 0.003);
  }
}

TEST(Synthetic, neighbouring_rows_are_not_correlated) {
  const auto source = made("synthetic:tinyllama-1.1b:f32");
  const auto values = values_of(*source, "blk.0.attn_k.weight");
  constexpr size_t kCols = 2048;
  double worst = 0;
  for (size_t r = 0; r + 1 < values.size() / kCols; ++r) {
    double dot = 0;
    for (size_t c = 0; c < kCols; ++c) dot += values[r * kCols + c] * values[(r + 1) * kCols + c];
    worst = std::max(worst, std::fabs(dot));  // rows have length 1, so this is their cosine
  }
  EXPECT_LT(worst, 0.2);
}

}  // namespace
}  // namespace kvik
