// Tests the features of families beyond a plain decoder.
#include "catalogue/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "catalogue/tensor_roles.h"
#include "config_keys.h"

namespace kvik {
namespace {

using testing::HasSubstr;

TEST(FamilyConfig, llama_rotates_adjacent_pairs_and_may_have_biases) {
  const ModelConfig c = read(Keys("llama"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kInterleaved);
  EXPECT_EQ(c.activation, Activation::kSilu);
  EXPECT_EQ(c.embedding_scale, 1.0f);
  EXPECT_TRUE(c.attention().is_qkv_bias_optional);
  EXPECT_TRUE(c.attention().is_output_bias_optional);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kNone);
  EXPECT_FALSE(c.has_post_norms);
}

TEST(FamilyConfig, a_window_without_a_pattern_is_for_every_layer) {
  const ModelConfig c = read(Keys("llama").set("attention.sliding_window", uint64_t{64}));
  for (const LayerConfig& layer : c.layers) {
    EXPECT_EQ(layer.attention().window, 64u);
    EXPECT_EQ(layer.attention().rope, 0u);
  }
}

TEST(FamilyConfig, a_window_of_zero_is_none) {
  const ModelConfig c = read(Keys("gemma2").set("attention.sliding_window", uint64_t{0}));
  for (const LayerConfig& layer : c.layers) EXPECT_EQ(layer.attention().window, 0u);
}

TEST(FamilyConfig, qwen2_has_biases_and_rotates_halves) {
  const ModelConfig c = read(Keys("qwen2"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kHalves);
  EXPECT_TRUE(c.attention().has_qkv_bias);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kNone);
  EXPECT_FALSE(c.has_post_norms);
  EXPECT_EQ(c.activation, Activation::kSilu);
}

TEST(FamilyConfig, qwen3_normalizes_heads_and_rotates_halves) {
  const ModelConfig c = read(Keys("qwen3"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kHalves);
  EXPECT_FALSE(c.attention().has_qkv_bias);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kHead);
  EXPECT_FALSE(c.has_post_norms);
}

TEST(FamilyConfig, gemma2_caps_scales_and_sees_a_window_in_every_other_layer) {
  const ModelConfig c = read(Keys("gemma2")
                                 .set("attention.sliding_window", uint64_t{512})
                                 .set("attn_logit_softcapping", 50.0)
                                 .set("final_logit_softcapping", 30.0));
  EXPECT_EQ(c.activation, Activation::kGeluTanh);
  EXPECT_EQ(c.embedding_scale, std::sqrt(96.0f));
  EXPECT_TRUE(c.has_post_norms);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kNone);
  EXPECT_EQ(c.attention().soft_cap, 50.0f);
  EXPECT_EQ(c.logit_soft_cap, 30.0f);
  ASSERT_EQ(c.ropes.size(), 1u);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(c.layers[i].attention().window, i % 2 == 0 ? 512u : 0u) << "layer " << i;
  }
}

TEST(FamilyConfig, gemma3_has_another_rope_base_in_local_layers) {
  const ModelConfig c = read(Keys("gemma3")
                                 .set("attention.sliding_window", uint64_t{512})
                                 .set("rope.freq_base", 1e6)
                                 .set("rope.scaling.type", std::string("linear"))
                                 .set("rope.scaling.factor", 8.0));
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kHead);
  EXPECT_TRUE(c.has_post_norms);
  EXPECT_EQ(c.embedding_scale, std::sqrt(96.0f));
  ASSERT_EQ(c.ropes.size(), 2u);
  EXPECT_EQ(c.ropes[0].base, 1e6f);
  EXPECT_EQ(c.ropes[0].position_scale, 0.125f);
  EXPECT_EQ(c.ropes[1].base, 10000.0f);
  EXPECT_EQ(c.ropes[1].position_scale, 1.0f);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const bool is_global = i % 6 == 5;
    EXPECT_EQ(c.layers[i].attention().window, is_global ? 0u : 512u) << "layer " << i;
    EXPECT_EQ(c.layers[i].attention().rope, is_global ? 0u : 1u) << "layer " << i;
  }
}

TEST(FamilyConfig, mixtures_of_experts_are_what_the_keys_say) {
  const ModelConfig mixtral =
      read(Keys("llama").set("expert_count", uint64_t{8}).set("expert_used_count", uint64_t{2}));
  ASSERT_NE(mixtral.experts(), nullptr);
  EXPECT_EQ(mixtral.experts()->n_used, 2u);
  EXPECT_EQ(mixtral.experts()->ffn_dim, 224u);  // that of the MLP, where there is no key
  EXPECT_EQ(mixtral.experts()->shared_ffn_dim, 0u);
  EXPECT_TRUE(mixtral.experts()->normalizes);

  const ModelConfig shared = read(Keys("qwen2moe")
                                      .set("expert_count", uint64_t{8})
                                      .set("expert_used_count", uint64_t{4})
                                      .set("expert_feed_forward_length", uint64_t{64})
                                      .set("expert_shared_feed_forward_length", uint64_t{128})
                                      .set("expert_weights_scale", 2.5)
                                      .set("expert_gating_func", uint64_t{2}));
  EXPECT_EQ(shared.experts()->ffn_dim, 64u);
  EXPECT_EQ(shared.experts()->shared_ffn_dim, 128u);
  EXPECT_FALSE(shared.experts()->normalizes);
  EXPECT_TRUE(shared.experts()->has_shared_gate);
  EXPECT_EQ(shared.experts()->weight_scale, 2.5f);
  EXPECT_EQ(shared.experts()->scoring, ExpertScoring::kSigmoid);
}

TEST(FamilyConfig, the_first_layers_of_a_mixture_may_be_dense) {
  Keys keys = Keys("qwen3moe").set("expert_count", uint64_t{8});
  keys.set("expert_used_count", uint64_t{2}).set("leading_dense_block_count", uint64_t{2});
  const ModelConfig c = read(keys);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(c.layers[i].experts() == nullptr, i < 2) << "layer " << i;
  }
  ASSERT_NE(c.experts(), nullptr);
  EXPECT_EQ(c.experts()->n_used, 2u);
  const Error error = error_of(keys.set("leading_dense_block_count", uint64_t{13}));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("leading_dense_block_count' is 13"));
}

TEST(FamilyConfig, more_experts_used_than_there_are_or_none_are_refused) {
  for (const uint64_t n_used : {uint64_t{0}, uint64_t{9}, UINT64_MAX}) {
    const Error error = error_of(
        Keys("qwen3moe").set("expert_count", uint64_t{8}).set("expert_used_count", n_used));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("expert_used_count"));
  }
  EXPECT_EQ(error_of(Keys("qwen3moe").set("expert_count", uint64_t{1} << 63)).code,
            ErrorCode::kCorrupt);
}

TEST(FamilyConfig, granite_scales_embedding_residual_and_logits) {
  const ModelConfig c = read(Keys("granite")
                                 .set("embedding_scale", 12.0)
                                 .set("residual_scale", 0.25)
                                 .set("attention.scale", 0.0625)
                                 .set("logit_scale", 8.0));
  EXPECT_EQ(c.embedding_scale, 12.0f);
  EXPECT_EQ(c.residual_scale, 0.25f);
  EXPECT_EQ(c.attention().scale, 0.0625f);
  EXPECT_EQ(c.logit_scale, 0.125f);  // it divides
  EXPECT_EQ(read(Keys("llama").set("residual_scale", 0.25)).residual_scale, 1.0f);
  for (const double bad : {0.0, -1.0, 1e-42}) {
    EXPECT_EQ(error_of(Keys("granite").set("logit_scale", bad)).code, ErrorCode::kCorrupt);
  }
}

TEST(FamilyConfig, olmo2_has_post_norms_and_row_wise_qk_norm) {
  const ModelConfig c = read(Keys("olmo2"));
  EXPECT_FALSE(c.has_pre_norms);
  EXPECT_TRUE(c.has_post_norms);
  EXPECT_EQ(c.attention().q_norm_dim(), 96u);
  EXPECT_EQ(c.attention().k_norm_dim(), 32u);
}

TEST(FamilyConfig, phi3_is_fused_and_has_longrope) {
  const ModelConfig c = read(Keys("phi3")
                                 .set("rope.scaling.original_context_length", uint64_t{1024})
                                 .set("rope.scaling.attn_factor", 1.25)
                                 .set("rope.dimension_count", uint64_t{12}));
  EXPECT_TRUE(c.attention().is_fused);
  EXPECT_TRUE(std::get<MlpConfig>(c.layers[0].feed_forward).is_fused);
  EXPECT_EQ(c.n_ctx_short_rope, 1024u);
  EXPECT_EQ(c.ropes[0].magnitude, 1.25f);
  EXPECT_EQ(c.ropes[0].n_dims, 12u);
}

TEST(FamilyConfig, the_largest_gemmas_scale_scores_by_their_heads_share_of_the_width) {
  for (const auto& [family, n_layers] : {std::pair("gemma2", 46u), {"gemma3", 62u}}) {
    Keys keys = Keys(family).set("attention.key_length", uint64_t{32});
    keys.set("attention.value_length", uint64_t{32});
    EXPECT_FLOAT_EQ(read(keys).attention().scale, 1 / std::sqrt(32.0f)) << family;
    EXPECT_EQ(read(keys.set("block_count", uint64_t{n_layers})).attention().scale, 0.25f) << family;
  }
}

Keys latent_keys() {
  Keys keys("deepseek2");
  keys.set("attention.kv_lora_rank", uint64_t{32}).set("rope.dimension_count", uint64_t{8});
  keys.set("attention.key_length", uint64_t{40}).set("attention.value_length", uint64_t{32});
  return keys.set("attention.key_length_mla", uint64_t{24})
      .set("attention.value_length_mla", uint64_t{12});
}

TEST(FamilyConfig, latent_attention_has_one_head_of_keys_whose_beginning_is_v) {
  const AttentionConfig a = read(latent_keys()).attention();
  EXPECT_EQ(a.n_kv_heads, 1u);
  EXPECT_EQ(a.head_dim, 40u);
  EXPECT_EQ(a.latent.rank, 32u);
  EXPECT_EQ(a.latent.qk_nope_head_dim, 16u);
  EXPECT_EQ(a.latent.qk_rope_head_dim, 8u);
  EXPECT_EQ(a.output_dim(), 6u * 12);
  EXPECT_FLOAT_EQ(a.scale, 1 / std::sqrt(24.0f));
}

TEST(FamilyConfig, files_of_2024_state_a_latent_heads_widths_alone) {
  Keys keys = latent_keys().erase("attention.key_length_mla").erase("attention.value_length_mla");
  keys.set("attention.key_length", uint64_t{24}).set("attention.value_length", uint64_t{12});
  const LatentConfig l = read(keys).attention().latent;
  EXPECT_EQ(l.q_dim(), 24u);
  EXPECT_EQ(l.value_dim, 12u);
}

TEST(FamilyConfig, mla_with_yarn_scales_scores_instead_of_rope) {
  Keys keys = latent_keys().set("rope.scaling.type", std::string("yarn"));
  keys.set("rope.scaling.factor", 40.0).set("rope.scaling.yarn_log_multiplier", 0.0707);
  const ModelConfig c = read(keys);
  const double magnitude = 1 + 0.1 * 0.707 * std::log(40.0);
  EXPECT_EQ(c.ropes[0].magnitude, 1.0f);
  EXPECT_NEAR(c.attention().scale, magnitude * magnitude / std::sqrt(24.0), 1e-6);
}

TEST(FamilyConfig, a_latent_width_that_cannot_be_is_refused_by_name) {
  for (const uint64_t rank : {0, 7, 24, 1024, 5000}) {
    const Error error = error_of(latent_keys().set("attention.kv_lora_rank", rank));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("deepseek2.attention.kv_lora_rank"));
  }
  EXPECT_THAT(error_of(latent_keys().set("rope.dimension_count", uint64_t{24})).message,
              HasSubstr("at least one dimension without RoPE"));
}

TEST(FamilyConfig, gpt_oss_has_sinks_biases_and_a_window_in_every_other_layer) {
  const ModelConfig c = read(Keys("gpt-oss")
                                 .set("attention.sliding_window", uint64_t{128})
                                 .set("expert_count", uint64_t{8})
                                 .set("expert_used_count", uint64_t{4}));
  EXPECT_TRUE(c.attention().has_sinks);
  EXPECT_TRUE(c.attention().has_output_bias);
  EXPECT_EQ(c.activation, Activation::kClampedSwish);
  EXPECT_EQ(c.layers[0].attention().window, 128u);
  EXPECT_EQ(c.layers[1].attention().window, 0u);
  EXPECT_TRUE(c.experts()->has_biases);
  EXPECT_TRUE(c.experts()->has_score_bias);
}

TEST(FamilyConfig, mtp_layers_are_not_layers_of_the_model) {
  Keys keys = Keys("glm4moe").set("expert_count", uint64_t{8});
  keys.set("expert_used_count", uint64_t{2}).set("expert_shared_count", uint64_t{2});
  keys.set("expert_feed_forward_length", uint64_t{64}).set("nextn_predict_layers", uint64_t{1});
  const ModelConfig c = read(keys);
  EXPECT_EQ(c.n_layers, 11u);
  EXPECT_EQ(c.n_mtp_layers, 1u);
  EXPECT_TRUE(c.has_mtp_head);
  ASSERT_EQ(c.layers.size(), 12u);
  EXPECT_NE(c.layers.back().experts(), nullptr);
  EXPECT_EQ(without_mtp_head(c).layers.size(), 11u);
  EXPECT_EQ(c.experts()->shared_ffn_dim, 128u);
  EXPECT_EQ(c.experts()->scoring, ExpertScoring::kSigmoid);
  EXPECT_EQ(error_of(keys.set("nextn_predict_layers", uint64_t{12})).code, ErrorCode::kCorrupt);
}

TEST(FamilyConfig, groups_of_experts_are_of_one_size_and_have_enough_to_choose_from) {
  Keys keys = latent_keys().set("expert_count", uint64_t{8}).set("expert_used_count", uint64_t{4});
  keys.set("expert_group_count", uint64_t{4}).set("expert_group_used_count", uint64_t{2});
  EXPECT_EQ(read(keys).experts()->n_groups_used, 2u);
  EXPECT_THAT(error_of(keys.set("expert_group_used_count", uint64_t{1})).message,
              HasSubstr("expert_group_count"));
  keys.set("expert_group_used_count", uint64_t{2}).set("expert_group_count", uint64_t{3});
  EXPECT_EQ(error_of(keys).code, ErrorCode::kCorrupt);
}

TEST(FamilyConfig, queries_of_mistral3_grow_with_their_position) {
  Keys keys = Keys("mistral3").set("attention.temperature_scale", 0.1);
  keys.set("rope.scaling.original_context_length", uint64_t{1024});
  EXPECT_EQ(read(keys).attention().temperature.length, 1024u);
  EXPECT_EQ(error_of(keys.erase("rope.scaling.original_context_length")).code, ErrorCode::kCorrupt);
}

Keys delta_keys() {
  Keys keys("qwen35");
  keys.set("ssm.conv_kernel", uint64_t{4}).set("ssm.state_size", uint64_t{16});
  keys.set("ssm.group_count", uint64_t{2}).set("ssm.time_step_rank", uint64_t{4});
  return keys.set("ssm.inner_size", uint64_t{64});
}

std::string kinds_of(const ModelConfig& c) {
  std::string kinds;
  for (const LayerConfig& layer : c.layers) {
    kinds += layer.if_attention() ? '*' : layer.has_state() ? 'M' : '-';
    if (layer.mixes() && layer.has_feed_forward()) kinds += '-';
  }
  return kinds;
}

TEST(FamilyConfig, layers_that_remember_are_listed_or_stand_at_equal_distances) {
  EXPECT_EQ(kinds_of(read(delta_keys())), "M-M-M-*-M-M-M-*-M-M-M-*-");
  EXPECT_EQ(kinds_of(read(delta_keys().set("full_attention_interval", uint64_t{6}))),
            "M-M-M-M-M-*-M-M-M-M-M-*-");
  std::vector<bool> listed(12, true);
  listed[1] = listed[6] = false;
  EXPECT_EQ(kinds_of(read(delta_keys().set("attention.recurrent_layers", listed))),
            "M-*-M-M-M-M-*-M-M-M-M-M-");
  listed[1] = listed[6] = true;
  EXPECT_THAT(error_of(delta_keys().set("attention.recurrent_layers", listed)).message,
              HasSubstr("lists all 12 layers, expected one that attends"));
  listed.pop_back();
  EXPECT_THAT(error_of(delta_keys().set("attention.recurrent_layers", listed)).message,
              HasSubstr("has 11 entries, expected 12"));
}

TEST(FamilyConfig, heads_of_states_are_whole_and_share_their_keys_evenly) {
  const std::string expected = "expected whole heads, an integer of them in a group";
  for (const char* family : {"qwen35", "granitehybrid"}) {
    const auto with = [&](const char* key, uint64_t n) {
      Keys keys(family);
      for (const auto& [name, value] : {std::pair("ssm.conv_kernel", 4),
                                        {"ssm.state_size", 16},
                                        {"ssm.group_count", 2},
                                        {"ssm.time_step_rank", 4},
                                        {"ssm.inner_size", 64}}) {
        keys.set(name, static_cast<uint64_t>(value));
      }
      keys.set("attention.head_count_kv",
               std::vector<uint64_t>{0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
      if (std::string_view(family) == "qwen35") keys.erase("attention.head_count_kv");
      return error_of(keys.set(key, n)).message;
    };
    EXPECT_THAT(with("ssm.group_count", 3), HasSubstr(expected)) << family;
    EXPECT_THAT(with("ssm.inner_size", 66), HasSubstr(expected)) << family;
    EXPECT_THAT(with("ssm.conv_kernel", 1), HasSubstr(expected)) << family;
    EXPECT_THAT(with("ssm.state_size", 24), HasSubstr("a multiple of 16")) << family;
  }
}

TEST(FamilyConfig, layers_of_nemotron_do_one_thing_each) {
  Keys keys("nemotron_h_moe");
  keys.set("block_count", uint64_t{6});
  keys.set("ssm.conv_kernel", uint64_t{4}).set("ssm.state_size", uint64_t{16});
  keys.set("ssm.group_count", uint64_t{2}).set("ssm.time_step_rank", uint64_t{4});
  keys.set("ssm.inner_size", uint64_t{64});
  keys.set("attention.head_count_kv", std::vector<uint64_t>{0, 0, 2, 0, 0, 0});
  keys.set("feed_forward_length", std::vector<uint64_t>{0, 96, 0, 0, 128, 0});
  const ModelConfig dense = read(keys);
  EXPECT_EQ(kinds_of(dense), "M-*M-M");
  EXPECT_EQ(dense.activation, Activation::kReluSquared);
  EXPECT_FALSE(dense.attention().has_rope);
  EXPECT_EQ(dense.ffn_dim, 128u);
  EXPECT_EQ(std::get<MlpConfig>(dense.layers[1].feed_forward).ffn_dim, 96u);
  EXPECT_EQ(dense.n_state_layers(), 3u);
  EXPECT_EQ(dense.n_attention_layers(), 1u);
  Keys experts = keys;
  experts.set("expert_count", uint64_t{8}).set("expert_used_count", uint64_t{2});
  EXPECT_EQ(read(experts).experts()->scoring, ExpertScoring::kSigmoid);
  EXPECT_EQ(read(experts).layers[0].experts(), nullptr);
  const ModelConfig latent = read(experts.set("moe_latent_size", uint64_t{40}));
  EXPECT_EQ(latent.experts()->latent_dim, 40u);
  const TensorTable table(latent);
  EXPECT_EQ(table.find({TensorRole::kExpertUp, 1})->shape.back(), 40u);
  EXPECT_EQ(table.find({TensorRole::kExpertsLatentDown, 1})->shape.front(), 40u);
  Keys mtp = keys;  // the layer with KV heads becomes an MTP layer
  EXPECT_THAT(error_of(mtp.set("nextn_predict_layers", uint64_t{4})).message,
              HasSubstr("lists no KV heads at all"));
  keys.set("feed_forward_length", std::vector<uint64_t>{0, 96, 7, 0, 128, 0});
  EXPECT_THAT(error_of(keys).message, HasSubstr("is 7 for layer 2, which has KV heads"));
}

TEST(FamilyConfig, no_experts_are_no_trouble) {
  EXPECT_EQ(read(Keys("llama").set("expert_count", uint64_t{0})).n_layers, 12u);
}

}  // namespace
}  // namespace kvik
