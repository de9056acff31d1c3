#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "catalogue/config_keys.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Metadata::Value list(std::vector<uint64_t> values) { return Metadata::Value(std::move(values)); }
Metadata::Value flags(std::vector<bool> values) { return Metadata::Value(std::move(values)); }

// 12 layers, of which every fourth attends.
Keys glm5_keys() {
  Keys keys("glm5-next");
  keys.set("expert_count", uint64_t{8})
      .set("expert_used_count", uint64_t{2})
      .set("expert_feed_forward_length", uint64_t{64})
      .set("expert_shared_count", uint64_t{1})
      .set("leading_dense_block_count", uint64_t{3});
  std::vector<uint64_t> n_kv_heads;
  for (uint64_t i = 0; i < 12; ++i) n_kv_heads.push_back(i % 4 == 3 ? 1 : 0);
  keys.set("attention.head_count_kv", list(n_kv_heads))
      .set("attention.kv_lora_rank", uint64_t{32})
      .set("attention.q_lora_rank", uint64_t{24})
      .set("attention.key_length", uint64_t{32})
      .set("attention.value_length", uint64_t{32})
      .set("attention.key_length_mla", uint64_t{20})
      .set("attention.value_length_mla", uint64_t{16})
      .set("rope.dimension_count", uint64_t{0});
  keys.set("kda.head_dim", uint64_t{16})
      .set("kda.gate_lower_bound", -5.0)
      .set("ssm.conv_kernel", uint64_t{4});
  keys.set("hyper_connection.count", uint64_t{4})
      .set("hyper_connection.sinkhorn_iterations", uint64_t{20});
  keys.set("attention.indexer.head_count", uint64_t{3})
      .set("attention.indexer.key_length", uint64_t{24})
      .set("attention.indexer.top_k", uint64_t{64})
      .set("attention.indexer.kpool", uint64_t{4});
  return keys.set("swiglu_clamp_exp", Metadata::Value(std::vector<double>(12, 10.0)))
      .set("swiglu_clamp_shexp", Metadata::Value(std::vector<double>(12, 7.0)));
}

TEST(Glm5Next, every_fourth_layer_attends_to_blocks_without_rope) {
  const ModelConfig c = read(glm5_keys());
  ASSERT_TRUE(c.hyper && c.hyper->sinkhorn);
  EXPECT_EQ(c.hyper->n, 4u);
  EXPECT_EQ(c.hyper->sinkhorn->n_iterations, 20u);
  EXPECT_EQ(c.hyper->sinkhorn->eps, 1e-6f);
  EXPECT_FALSE(c.hyper->sinkhorn->has_output_weights);
  for (uint32_t i = 0; i < 12; ++i) {
    if (i % 4 != 3) {
      const auto& kda = std::get<KdaConfig>(c.layers[i].mixer);
      EXPECT_TRUE(kda.is_low_rank && kda.has_negative_factors);
      EXPECT_EQ(kda.bound, -5.0f);
      continue;
    }
    const AttentionConfig& a = c.layers[i].attention();
    EXPECT_FALSE(a.has_rope);
    EXPECT_EQ(a.latent.qk_rope_head_dim, 0u);
    EXPECT_EQ(a.latent.qk_nope_head_dim, 20u);
    EXPECT_EQ(a.head_dim, 32u);
    EXPECT_FLOAT_EQ(a.scale, 1 / std::sqrt(20.0f));
    EXPECT_TRUE(a.indexer.is_own() && a.indexer.has_weighted_means);
    EXPECT_TRUE(a.indexer.has_head_weights());
    EXPECT_EQ(a.indexer.n_listed(), 17u);
    EXPECT_EQ(a.indexer.n_budget(), 67u);
  }
  const ActivationParameters dense = std::get<MlpConfig>(c.layers[0].feed_forward).activation;
  EXPECT_EQ(dense.limit, 7.0f);
  EXPECT_TRUE(dense.limits_gate);
  EXPECT_EQ(c.layers[3].experts()->limit, 10.0f);
  EXPECT_TRUE(c.layers[3].experts()->limits_gate);
}

TEST(Glm5Next, a_layer_has_tensors_of_its_own_indexer_and_of_mixed_streams) {
  Keys keys = glm5_keys();
  std::vector<bool> own(12, true);
  own[7] = false;
  const TensorTable table(read(keys.set("attention.indexer.types", flags(own))));
  const auto shape = [&](TensorRole role, uint32_t layer) {
    const TensorSpec* spec = table.find({role, layer});
    return spec ? spec->shape : std::vector<uint64_t>();
  };
  EXPECT_THAT(shape(TensorRole::kIndexEntryGate, 3), ElementsAre(24, 96));
  EXPECT_THAT(shape(TensorRole::kIndexEntryPositions, 3), ElementsAre(4, 24));
  EXPECT_THAT(shape(TensorRole::kIndexEntryPositions, 7), ElementsAre());
  EXPECT_THAT(shape(TensorRole::kKvDown, 7), ElementsAre(32, 96));
  EXPECT_THAT(shape(TensorRole::kDecayUp, 0), ElementsAre(96, 16));
  EXPECT_THAT(shape(TensorRole::kMixerHyperProjection, 0), ElementsAre(24, 384));
  EXPECT_THAT(shape(TensorRole::kFfnHyperScale, 3), ElementsAre(3));
  EXPECT_THAT(shape(TensorRole::kAttentionNorm, 3), ElementsAre(96));
  EXPECT_THAT(shape(TensorRole::kOutputNorm, 0), ElementsAre(96));
  EXPECT_THAT(shape(TensorRole::kHyperProjection, 0), ElementsAre());
}

TEST(Glm5Next, without_a_bound_the_decays_have_none) {
  const ModelConfig c = read(glm5_keys().erase("kda.gate_lower_bound"));
  EXPECT_EQ(std::get<KdaConfig>(c.layers[0].mixer).bound, 0.0f);
}

TEST(Glm5Next, the_mtp_layer_has_one_stream_and_attends_to_all_tokens) {
  Keys keys = glm5_keys();
  std::vector<uint64_t> n_kv_heads(12, 0);
  n_kv_heads[3] = n_kv_heads[11] = 1;
  const ModelConfig c = read(keys.set("nextn_predict_layers", uint64_t{1})
                                 .set("attention.head_count_kv", list(n_kv_heads)));
  EXPECT_EQ(c.n_layers, 11u);
  ASSERT_TRUE(c.has_mtp_head);
  EXPECT_EQ(c.mtp_hidden_dim(), c.model_dim);
  EXPECT_GT(c.layers[11].attention().latent.rank, 0u);
  EXPECT_EQ(c.layers[11].attention().indexer.n_top, 0u);
  const TensorTable table(c);
  EXPECT_EQ(table.find({TensorRole::kMixerHyperProjection, 11}), nullptr);
  EXPECT_TRUE(table.find({TensorRole::kMtpOutputNorm, 11}));
  EXPECT_TRUE(table.may_be_unused("blk.11.hc_attn_fn.weight"));
  EXPECT_TRUE(table.may_be_unused("blk.11.indexer.attn_k.weight"));
}

TEST(Glm5Next, impossible_values_are_refused) {
  const auto message = [](const Keys& keys) { return error_of(keys).message; };
  EXPECT_THAT(message(glm5_keys().set("hyper_connection.count", uint64_t{1})),
              HasSubstr("hyper_connection.count' is 1, expected 2 or more"));
  EXPECT_THAT(message(glm5_keys().erase("hyper_connection.sinkhorn_iterations")),
              HasSubstr("sinkhorn_iterations"));
  EXPECT_THAT(message(glm5_keys().set("attention.indexer.kpool", uint64_t{1})),
              HasSubstr("kpool' is 1, expected a divisor of 32 and of the 64 selected tokens, at "
                        "least 2"));
  EXPECT_THAT(message(glm5_keys().set("attention.indexer.kpool", uint64_t{6})),
              HasSubstr("kpool' is 6, expected a divisor of 32"));
  EXPECT_THAT(message(glm5_keys().set("attention.indexer.top_k", uint64_t{66})),
              HasSubstr("kpool' is 4, expected a divisor of 32 and of the 66 selected tokens"));
  EXPECT_THAT(message(glm5_keys().set("attention.indexer.kpool_select_tail", false)),
              HasSubstr("kpool_select_tail' is false, expected true"));
  EXPECT_THAT(message(glm5_keys().set("attention.indexer.types",
                                      flags({true, true, true, false, true, true, true, true, true,
                                             true, true, true}))),
              HasSubstr("types' is false for layer 3, expected that the first layer that attends"));
  EXPECT_THAT(
      message(glm5_keys().set("attention.head_count_kv", list(std::vector<uint64_t>(12, 1)))),
      HasSubstr("head_count_kv' has no 0, expected at least one layer with KDA"));
  EXPECT_THAT(message(glm5_keys().set("rope.dimension_count", uint64_t{8})),
              HasSubstr("rope.dimension_count' is 8, expected 0"));
  EXPECT_THAT(message(glm5_keys().set("kda.gate_lower_bound", 1.0)),
              HasSubstr("gate_lower_bound' is 1, expected a number < 0"));
  EXPECT_THAT(message(glm5_keys().erase("attention.q_lora_rank")), HasSubstr("q_lora_rank"));
}

}  // namespace
}  // namespace kvik
