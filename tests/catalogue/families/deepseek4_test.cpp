#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "catalogue/config_keys.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

using testing::HasSubstr;

// Layers have a window alone, then entries of 4 and of 128 tokens in turn. The list of entries has
// one for an MTP layer, too.
Keys deepseek4_keys() {
  Keys keys("deepseek4");
  keys.set("expert_count", uint64_t{8})
      .set("expert_used_count", uint64_t{2})
      .set("expert_feed_forward_length", uint64_t{64})
      .set("expert_shared_count", uint64_t{1})
      .set("expert_gating_func", uint64_t{4})
      .set("hash_layer_count", uint64_t{2})
      .set("swiglu_clamp_exp", 10.0);
  keys.set("attention.head_count", uint64_t{8})
      .set("attention.head_count_kv", uint64_t{1})
      .set("attention.key_length", uint64_t{48})
      .set("attention.value_length", uint64_t{48})
      .set("attention.sliding_window", uint64_t{128})
      .set("attention.q_lora_rank", uint64_t{24})
      .set("attention.output_group_count", uint64_t{4})
      .set("attention.output_lora_rank", uint64_t{16})
      .set("attention.compress_rope_freq_base", 160000.0)
      .set("rope.dimension_count", uint64_t{16})
      .set("rope.scaling.type", std::string("yarn"))
      .set("rope.scaling.factor", 16.0)
      .set("rope.scaling.original_context_length", uint64_t{4096});
  keys.set("attention.indexer.head_count", uint64_t{3})
      .set("attention.indexer.key_length", uint64_t{32})
      .set("attention.indexer.top_k", uint64_t{64});
  std::vector<uint64_t> ratios;
  for (uint64_t i = 0; i < 13; ++i) ratios.push_back(i == 0 ? 0 : i % 2 == 1 ? 4 : 128);
  keys.set("attention.compress_ratios", Metadata::Value(ratios));
  return keys.set("hyper_connection.count", uint64_t{4})
      .set("hyper_connection.sinkhorn_iterations", uint64_t{20})
      .set("hyper_connection.epsilon", 1e-6);
}

TEST(DeepSeek4, layers_attend_to_a_window_and_to_entries_of_4_or_128_tokens) {
  const ModelConfig c = read(deepseek4_keys());
  ASSERT_TRUE(c.hyper && c.hyper->sinkhorn);
  EXPECT_EQ(c.hyper->n, 4u);
  EXPECT_EQ(c.hyper->sinkhorn->n_iterations, 20u);
  EXPECT_TRUE(c.hyper->sinkhorn->has_output_weights);
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    const AttentionConfig& a = c.layers[i].attention();
    EXPECT_EQ(a.window, 128u);
    EXPECT_EQ(a.joint.q_rank, 24u);
    EXPECT_EQ(a.joint.rope_dim, 16u);
    EXPECT_EQ(a.output_dim(), 64u);
    EXPECT_FLOAT_EQ(a.scale, 1 / std::sqrt(48.0f));
    const EntriesConfig& e = a.joint.entries;
    EXPECT_EQ(e.n_tokens, i == 0 ? 0u : i % 2 == 1 ? 4u : 128u);
    EXPECT_EQ(e.overlaps, i % 2 == 1);
    EXPECT_EQ(e.n_top, i % 2 == 1 ? 64u : 0u);
    EXPECT_EQ(c.layers[i].has_entries(), i > 0);
    const ExpertsConfig& experts = *c.layers[i].experts();
    EXPECT_EQ(experts.scoring, ExpertScoring::kSqrtSoftplus);
    EXPECT_EQ(experts.has_token_table, i < 2);
    EXPECT_EQ(experts.has_correction_bias, i >= 2);
    EXPECT_EQ(experts.limit, 10.0f);
    EXPECT_EQ(experts.shared_limit, 10.0f);
    EXPECT_TRUE(experts.limits_gate);
  }
  EXPECT_EQ(c.n_state_layers(), c.n_layers - 1);
}

TEST(DeepSeek4, only_layers_with_entries_have_scaled_rope_and_its_magnitude_is_1) {
  const ModelConfig c = read(deepseek4_keys());
  const auto rope = [&](uint32_t layer) { return c.ropes[c.layers[layer].attention().rope]; };
  EXPECT_EQ(rope(0).yarn.n_ctx_original, 0u);
  EXPECT_EQ(rope(0).position_scale, 1.0f);
  EXPECT_EQ(rope(0).base, 10000.0f);
  EXPECT_EQ(rope(1).yarn.n_ctx_original, 4096u);
  EXPECT_EQ(rope(1).base, 160000.0f);
  EXPECT_EQ(rope(1).magnitude, 1.0f);
}

TEST(DeepSeek4, its_tensors_have_the_names_of_files) {
  const TensorTable table(read(deepseek4_keys()));
  const auto shape = [&](TensorRole role, uint32_t layer) {
    const TensorSpec* spec = table.find({role, layer});
    return spec ? spec->shape : std::vector<uint64_t>();
  };
  using enum TensorRole;
  using Shape = std::vector<uint64_t>;
  EXPECT_EQ(shape(kOutputDown, 0), (Shape{64, 96}));
  EXPECT_EQ(shape(kEntryValue, 1)[0], 96u);
  EXPECT_EQ(shape(kEntryValue, 2)[0], 48u);
  EXPECT_EQ(shape(kEntryPositions, 2), (Shape{128, 48}));
  EXPECT_EQ(shape(kIndexEntryPositions, 1), (Shape{4, 64}));
  EXPECT_EQ(shape(kIndexEntryPositions, 2), Shape());
  EXPECT_EQ(shape(kMixerHyperProjection, 2)[0], 24u);
  EXPECT_EQ(name_of(TensorId{kEntryGate, 2}), "blk.2.attn_compressor_gate.weight");
  EXPECT_EQ(name_of(TensorId{kExpertTable, 1}), "blk.1.ffn_gate_tid2eid.weight");
  EXPECT_EQ(name_of(TensorId{kHyperProjection}), "output_hc_fn.weight");
}

TEST(DeepSeek4, the_mtp_layer_has_a_window_and_no_entries) {
  Keys keys = deepseek4_keys();
  std::vector<uint64_t> ratios(12, 4);
  ratios[11] = 0;
  keys.set("nextn_predict_layers", uint64_t{1})
      .set("attention.compress_ratios", Metadata::Value(ratios))
      .set("hash_layer_count", uint64_t{11});
  const ModelConfig c = read(keys);
  ASSERT_TRUE(c.has_mtp_head);
  EXPECT_EQ(c.mtp_streams, StreamNorm::kShared);
  EXPECT_EQ(c.mtp_hidden_dim(), 4 * c.model_dim);
  const LayerConfig& layer = c.layers[11];
  EXPECT_FALSE(layer.has_entries());
  EXPECT_EQ(layer.attention().window, 128u);
  EXPECT_EQ(c.ropes[layer.attention().rope].base, 10000.0f);
  EXPECT_FALSE(layer.experts()->has_token_table);
  EXPECT_TRUE(layer.experts()->has_correction_bias);
  EXPECT_TRUE(layer.experts()->limits_gate);
  EXPECT_EQ(layer.experts()->shared_limit, 10.0f);
  const TensorTable table(c);
  const auto spec = [&](TensorRole role) { return *table.find({role, 11}); };
  EXPECT_EQ(spec(TensorRole::kMtpHiddenNorm).shape, std::vector<uint64_t>{c.model_dim});
  EXPECT_EQ(spec(TensorRole::kMtpHyperProjection).shape[0], 4u);
  EXPECT_TRUE(spec(TensorRole::kMtpHyperScale).is_optional);
  EXPECT_TRUE(spec(TensorRole::kMtpOutputNorm).is_optional);
  ratios[11] = 128;
  const auto other = keys.set("attention.compress_ratios", Metadata::Value(ratios)).read();
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message,
              HasSubstr("'deepseek4.attention.compress_ratios' is 128 in the MTP layer, expected "
                        "0"));
}

void expect_error(Keys keys, const std::string& key, const Metadata::Value& value,
                  const std::string& what) {
  const auto config = keys.set(key, value).read();
  ASSERT_FALSE(config) << key;
  EXPECT_THAT(config.error().message, HasSubstr(what));
}

TEST(DeepSeek4, impossible_values_are_named) {
  const Keys keys = deepseek4_keys();
  const auto ratios = [](std::vector<uint64_t> values) { return Metadata::Value(values); };
  expect_error(
      keys, "attention.compress_ratios", ratios(std::vector<uint64_t>(12, 48)),
      "'deepseek4.attention.compress_ratios' is 48 in layer 0, expected 0, or a divisor or "
      "a multiple of 32");
  expect_error(keys, "attention.compress_ratios", ratios({0, 4}), "has 2 entries, expected 12");
  expect_error(keys, "attention.output_group_count", uint64_t{3},
               "'deepseek4.attention.output_group_count' is 3, expected a divisor of the 8 heads");
  expect_error(keys, "attention.sliding_window", uint64_t{0},
               "'deepseek4.attention.sliding_window' is 0, expected a number of tokens");
  expect_error(keys, "attention.indexer.key_length", uint64_t{8},
               "'deepseek4.attention.indexer.key_length' is 8, expected at least the 16 RoPE");
  expect_error(keys, "hyper_connection.count", uint64_t{17}, "'deepseek4.hyper_connection.count'");
  expect_error(keys, "hyper_connection.epsilon", 0.0, "expected a number > 0");
  expect_error(keys, "expert_count", uint64_t{0}, "layer 0 has no experts, expected some");
  expect_error(keys, "expert_gating_func", uint64_t{9}, "or 4 (square root of softplus)");
}

}  // namespace
}  // namespace kvik
