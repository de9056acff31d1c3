// Tests what families with a recurrent state add to a plain decoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "config_keys.h"

namespace kvik {
namespace {

using testing::HasSubstr;

TEST(RecurrentFamilies, falcon_h1_has_a_state_space_beside_attention_and_factors) {
  const auto keys = [] {
    return Keys("falcon-h1")
        .set("ssm.inner_size", uint64_t{64})
        .set("ssm.state_size", uint64_t{16})
        .set("ssm.group_count", uint64_t{1})
        .set("ssm.time_step_rank", uint64_t{4})
        .set("ssm.conv_kernel", uint64_t{4});
  };
  const ModelConfig plain = read(keys());
  EXPECT_EQ(plain.n_attention_layers(), 12u);
  EXPECT_EQ(plain.n_state_layers(), 12u);
  EXPECT_EQ(plain.layers[0].beside->out_scale, 1.0f);
  const ModelConfig c =
      read(keys()
               .set("attention.value_scale", 0.5)
               .set("ssm.in_scales", Metadata::Value(std::vector<double>{1, 2, 3, 4, 5}))
               .set("ssm.out_scale", 0.25)
               .set("feed_forward.gate_scale", 3.0)
               .set("feed_forward.scale", 6.0)
               .set("embedding_scale", 7.0)
               .set("logit_scale", 8.0));
  EXPECT_EQ(c.layers[2].attention().value_scale, 0.5f);
  EXPECT_EQ(c.layers[2].beside->in_scales[4], 5.0f);
  EXPECT_EQ(c.layers[2].beside->out_scale, 0.25f);
  EXPECT_EQ(std::get<MlpConfig>(c.layers[2].feed_forward).activation.gate_scale, 3.0f);
  EXPECT_EQ(std::get<MlpConfig>(c.layers[2].feed_forward).activation.scale, 6.0f);
  EXPECT_EQ(c.embedding_scale, 7.0f);
  EXPECT_EQ(c.logit_scale, 8.0f);
  const TensorTable table(c);
  EXPECT_NE(table.find({TensorRole::kBareFfnNorm, 0}), nullptr);
  EXPECT_TRUE(table.find({TensorRole::kStateNorm, 0})->is_optional);
  EXPECT_EQ(error_of(keys().set("ssm.in_scales", Metadata::Value(std::vector<double>{1, 2}))).code,
            ErrorCode::kCorrupt);
  EXPECT_EQ(error_of(keys().set("ssm.out_scale", 0.0)).code, ErrorCode::kCorrupt);
}

TEST(RecurrentFamilies, jamba_has_layers_of_mamba_1_and_experts_in_every_nth_layer) {
  const auto keys = [] {
    std::vector<uint64_t> n_kv_heads(12, 0);
    n_kv_heads[4] = 2;
    return Keys("jamba")
        .set("attention.head_count_kv", Metadata::Value(n_kv_heads))
        .set("ssm.inner_size", uint64_t{192})
        .set("ssm.state_size", uint64_t{16})
        .set("ssm.time_step_rank", uint64_t{6})
        .set("ssm.conv_kernel", uint64_t{4})
        .set("expert_count", uint64_t{8})
        .set("expert_used_count", uint64_t{2})
        .set("interleave_moe_layer_step", uint64_t{2});
  };
  const ModelConfig c = read(keys());
  EXPECT_EQ(c.n_attention_layers(), 1u);
  EXPECT_EQ(c.n_state_layers(), 11u);
  EXPECT_FALSE(c.layers[4].attention().has_rope);
  EXPECT_EQ(std::get<SelectiveConfig>(c.layers[0].mixer).state_floats(), 3u * 192 + 16 * 192);
  EXPECT_EQ(c.layers[0].experts(), nullptr);
  ASSERT_NE(c.layers[1].experts(), nullptr);
  EXPECT_FALSE(c.layers[1].experts()->normalizes);
  EXPECT_EQ(error_of(keys().set("ssm.inner_size", uint64_t{100})).code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of(keys().set("ssm.state_size", uint64_t{1000})).code, ErrorCode::kCorrupt);
  EXPECT_EQ(error_of(keys().set("ssm.conv_kernel", uint64_t{1})).code, ErrorCode::kUnsupported);
}

TEST(RecurrentFamilies, kimi_linear_has_layers_of_kda_and_latent_attention_without_rope) {
  const auto keys = [] {
    std::vector<uint64_t> n_kv_heads(12, 0);
    n_kv_heads[3] = n_kv_heads[7] = 1;
    return Keys("kimi-linear")
        .set("attention.head_count_kv", Metadata::Value(n_kv_heads))
        .set("attention.kv_lora_rank", uint64_t{32})
        .set("attention.key_length", uint64_t{48})
        .set("attention.value_length", uint64_t{32})
        .set("attention.key_length_mla", uint64_t{40})
        .set("attention.value_length_mla", uint64_t{24})
        .set("rope.dimension_count", uint64_t{16})
        .set("kda.head_dim", uint64_t{16})
        .set("ssm.conv_kernel", uint64_t{4});
  };
  const ModelConfig c = read(keys());
  EXPECT_EQ(c.n_attention_layers(), 2u);
  const AttentionConfig& a = c.layers[3].attention();
  EXPECT_FALSE(a.has_rope);
  EXPECT_EQ(a.latent.rank, 32u);
  EXPECT_EQ(a.n_kv_heads, 1u);
  const auto& k = std::get<KdaConfig>(c.layers[0].mixer);
  EXPECT_EQ(k.n_heads, 6u);
  EXPECT_EQ(k.state_floats(), 3u * 3 * 96 + 96 * 16);
  EXPECT_EQ(error_of(keys().set("kda.head_dim", uint64_t{24})).code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of(keys().set("ssm.conv_kernel", uint64_t{1})).code, ErrorCode::kCorrupt);
  EXPECT_EQ(error_of(keys().erase("kda.head_dim")).code, ErrorCode::kCorrupt);
}

TEST(RecurrentFamilies, ling_3_has_bounded_decays_of_full_rank_and_gated_latent_attention) {
  const auto keys = [] {
    std::vector<uint64_t> n_kv_heads(12, 0);
    n_kv_heads[3] = n_kv_heads[7] = 1;
    return Keys("bailingmoe3")
        .set("attention.head_count_kv", Metadata::Value(n_kv_heads))
        .set("attention.kv_lora_rank", uint64_t{32})
        .set("attention.key_length", uint64_t{48})
        .set("attention.value_length", uint64_t{32})
        .set("attention.key_length_mla", uint64_t{40})
        .set("attention.value_length_mla", uint64_t{24})
        .set("rope.dimension_count", uint64_t{16})
        .set("kda.head_dim", uint64_t{16})
        .set("kda.gate_lower_bound", -5.0)
        .set("ssm.conv_kernel", uint64_t{4});
  };
  const ModelConfig c = read(keys());
  const AttentionConfig& a = c.layers[3].attention();
  EXPECT_TRUE(a.has_rope);
  EXPECT_EQ(a.gate_dim(), a.n_heads);
  const auto& k = std::get<KdaConfig>(c.layers[0].mixer);
  EXPECT_FALSE(k.is_low_rank);
  EXPECT_EQ(k.bound, -5.0f);
  EXPECT_EQ(k.in_dim(), 3u * 96 + 6);
  EXPECT_EQ(error_of(keys().set("kda.safe_gate", false)).code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of(keys().set("kda.gate_lower_bound", 0.0)).code, ErrorCode::kCorrupt);
  EXPECT_EQ(error_of(keys().erase("kda.gate_lower_bound")).code, ErrorCode::kCorrupt);
}

TEST(RecurrentFamilies, experts_of_nemotron_may_differ_between_layers) {
  const std::vector<uint64_t> n_kv_heads = {0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<uint64_t> sizes = {0, 96, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<uint64_t> n_used = {0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0};
  const auto keys = [&] {
    return Keys("nemotron_h_moe")
        .set("attention.head_count_kv", Metadata::Value(n_kv_heads))
        .set("feed_forward_length", Metadata::Value(sizes))
        .set("ssm.conv_kernel", uint64_t{4})
        .set("ssm.state_size", uint64_t{16})
        .set("ssm.group_count", uint64_t{2})
        .set("ssm.time_step_rank", uint64_t{4})
        .set("ssm.inner_size", uint64_t{128})
        .set("expert_count", uint64_t{8})
        .set("expert_used_count", Metadata::Value(n_used))
        .set("expert_feed_forward_length", Metadata::Value(sizes));
  };
  const ModelConfig c = read(keys());
  ASSERT_NE(c.layers[1].experts(), nullptr);
  ASSERT_NE(c.layers[3].experts(), nullptr);
  EXPECT_EQ(c.layers[1].experts()->n_used, 2u);
  EXPECT_EQ(c.layers[1].experts()->ffn_dim, 96u);
  EXPECT_EQ(c.layers[3].experts()->n_used, 4u);
  EXPECT_EQ(c.layers[3].experts()->ffn_dim, 64u);
  EXPECT_EQ(c.widest_experts().n_used, 4u);
  EXPECT_EQ(c.widest_experts().ffn_dim, 96u);
  EXPECT_FALSE(c.layers[0].has_feed_forward());
  const std::vector<uint64_t> too_many = {0, 2, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_THAT(error_of(keys().set("expert_used_count", Metadata::Value(too_many))).message,
              HasSubstr("'nemotron_h_moe.expert_used_count' is 9 in layer 3, expected 1 to 8"));
  const std::vector<int64_t> spoilt = {-7, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_THAT(error_of(keys().set("expert_used_count", Metadata::Value(spoilt))).message,
              HasSubstr("is -7 in layer 0, expected a number ≥ 0"));
  const std::vector<uint64_t> too_few = {2, 4};
  EXPECT_EQ(error_of(keys().set("expert_used_count", Metadata::Value(too_few))).code,
            ErrorCode::kCorrupt);
}

TEST(RecurrentFamilies, the_mtp_layer_of_nemotron_is_listed_as_one_layer_or_as_two) {
  using List = std::vector<uint64_t>;
  const auto keys = [](List n_kv_heads, List sizes, List n_used) {
    const uint64_t n_listed = sizes.size();
    return Keys("nemotron_h_moe")
        .set("block_count", n_listed)
        .set("nextn_predict_layers", n_listed - 3)
        .set("attention.head_count_kv", Metadata::Value(std::move(n_kv_heads)))
        .set("feed_forward_length", Metadata::Value(sizes))
        .set("ssm.conv_kernel", uint64_t{4})
        .set("ssm.state_size", uint64_t{16})
        .set("ssm.group_count", uint64_t{2})
        .set("ssm.time_step_rank", uint64_t{4})
        .set("ssm.inner_size", uint64_t{128})
        .set("expert_count", uint64_t{8})
        .set("expert_used_count", Metadata::Value(std::move(n_used)))
        .set("expert_feed_forward_length", Metadata::Value(std::move(sizes)));
  };
  for (const Keys& listed : {keys({0, 0, 2, 2}, {0, 96, 0, 160}, {0, 2, 0, 5}),
                             keys({0, 0, 2, 2, 0}, {0, 96, 0, 0, 160}, {0, 2, 0, 0, 5})}) {
    const ModelConfig c = read(listed);
    EXPECT_EQ(c.n_layers, 3u);
    ASSERT_TRUE(c.has_mtp_head);
    EXPECT_NE(c.layers[3].if_attention(), nullptr);
    ASSERT_NE(c.layers[3].experts(), nullptr);
    EXPECT_EQ(c.layers[3].experts()->n_used, 5u);
    EXPECT_EQ(c.layers[3].experts()->ffn_dim, 160u);
    EXPECT_EQ(c.widest_experts().ffn_dim, 160u);
  }
  EXPECT_THAT(error_of(keys({0, 0, 2, 2, 0}, {0, 96, 0, 0, 160}, {0, 2, 0, 0, 9})).message,
              HasSubstr("'nemotron_h_moe.expert_used_count' is 9 in layer 4, expected 1 to 8"));
}

}  // namespace
}  // namespace kvik
