// Tests what the families of 2025 and 2026 add to a plain decoder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <variant>
#include <vector>

#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "config_keys.h"

namespace kvik {
namespace {

using testing::HasSubstr;

TEST(RecentFamilies, every_fourth_layer_of_smollm3_has_no_rope) {
  const ModelConfig c = read(Keys("smollm3"));
  for (size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(c.layers[i].attention().has_rope, (i + 1) % 4 != 0) << "layer " << i;
  }
}

TEST(RecentFamilies, full_attention_has_no_rope_beside_windows_but_alone) {
  const Keys windowed = Keys("exaone4").set("attention.sliding_window", uint64_t{64});
  const ModelConfig c = read(windowed);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const bool is_global = i % 4 == 3;
    EXPECT_EQ(c.layers[i].attention().window, is_global ? 0u : 64u) << "layer " << i;
    EXPECT_EQ(c.layers[i].attention().has_rope, !is_global) << "layer " << i;
  }
  for (const LayerConfig& layer : read(Keys("exaone4")).layers) {
    EXPECT_TRUE(layer.attention().has_rope);
  }
}

TEST(RecentFamilies, a_file_may_list_the_layers_with_a_window_or_state_their_interval) {
  std::vector<bool> listed(12, false);
  listed[0] = listed[5] = true;
  const auto keys = [] { return Keys("cohere2").set("attention.sliding_window", uint64_t{64}); };
  const ModelConfig by_list =
      read(keys().set("attention.sliding_window_pattern", Metadata::Value(listed)));
  const ModelConfig by_interval = read(keys().set("attention.sliding_window_pattern", uint64_t{3}));
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(by_list.layers[i].attention().window, listed[i] ? 64u : 0u) << "layer " << i;
    EXPECT_EQ(by_interval.layers[i].attention().window, i % 3 != 2 ? 64u : 0u) << "layer " << i;
  }
  const Error error = error_of(
      keys().set("attention.sliding_window_pattern", Metadata::Value(std::vector<bool>(5, true))));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("sliding_window_pattern' has 5 entries, expected 12"));
}

TEST(RecentFamilies, the_rope_of_olmo_3_is_scaled_in_layers_with_full_attention_only) {
  const ModelConfig c = read(Keys("olmo2")
                                 .set("attention.sliding_window", uint64_t{64})
                                 .set("rope.freq_base", 5e5)
                                 .set("rope.scaling.type", std::string("yarn"))
                                 .set("rope.scaling.factor", 8.0));
  ASSERT_EQ(c.ropes.size(), 2u);
  EXPECT_EQ(c.ropes[0].position_scale, 0.125f);
  EXPECT_EQ(c.ropes[1].position_scale, 1.0f);
  EXPECT_EQ(c.ropes[1].base, 5e5f);
  EXPECT_EQ(c.ropes[1].magnitude, 1.0f);
  EXPECT_EQ(c.ropes[1].yarn.n_ctx_original, 0u);
  EXPECT_EQ(c.layers[0].attention().rope, 1u);
  EXPECT_EQ(c.layers[3].attention().rope, 0u);
  EXPECT_EQ(read(Keys("olmo2")).ropes.size(), 1u);
}

TEST(RecentFamilies, heads_of_command_r_plus_have_layer_norms_of_their_own) {
  const ModelConfig c = read(Keys("command-r"));
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kLayerPerHead);
  const TensorTable table(c);
  const TensorSpec* norm = table.find({TensorRole::kQNorm, 0});
  ASSERT_NE(norm, nullptr);
  EXPECT_TRUE(norm->is_optional);  // Command R has none
  const std::vector<uint64_t> shape = {c.attention().n_heads, c.attention().head_dim};
  EXPECT_EQ(norm->shape, shape);
}

TEST(RecentFamilies, shared_experts_of_command_a_plus_are_averaged_with_the_others) {
  const auto keys = [] {
    return Keys("cohere2moe")
        .set("expert_count", uint64_t{8})
        .set("expert_used_count", uint64_t{2})
        .set("expert_feed_forward_length", uint64_t{64})
        .set("leading_dense_block_count", uint64_t{1})
        .set("attention.sliding_window", uint64_t{64})
        .set("attention.sliding_window_pattern", uint64_t{1});
  };
  const ModelConfig alone = read(keys());
  EXPECT_EQ(alone.experts()->weight_scale, 1.0f);
  EXPECT_EQ(alone.norm, NormKind::kLayer);
  const ModelConfig c = read(
      keys().set("expert_shared_count", uint64_t{1}).set("attention.layer_norm_rms_epsilon", 1e-4));
  EXPECT_EQ(c.experts()->weight_scale, 0.5f);
  EXPECT_EQ(c.experts()->shared_scale, 0.5f);
  EXPECT_EQ(c.norm, NormKind::kRms);
  EXPECT_EQ(c.norm_eps, 1e-4f);
  EXPECT_TRUE(c.layers[0].attention().has_rope);  // it has no experts
  EXPECT_FALSE(c.layers[1].attention().has_rope);
}

TEST(RecentFamilies, llama_4_attends_in_chunks_and_has_a_temperature_without_rope) {
  const auto keys = [] {
    return Keys("llama4")
        .set("expert_count", uint64_t{16})
        .set("expert_used_count", uint64_t{1})
        .set("expert_feed_forward_length", uint64_t{64})
        .set("interleave_moe_layer_step", uint64_t{2});
  };
  const ModelConfig c = read(keys());
  for (uint32_t i = 0; i < c.layers.size(); ++i) {
    const AttentionConfig& a = c.layers[i].attention();
    const bool is_global = i % 4 == 3;
    EXPECT_EQ(a.is_chunked, !is_global) << "layer " << i;
    EXPECT_EQ(a.window, is_global ? 0u : 8192u) << "layer " << i;
    EXPECT_EQ(a.has_rope, !is_global) << "layer " << i;
    EXPECT_EQ(a.qk_norm, is_global ? QkNorm::kNone : QkNorm::kPlain) << "layer " << i;
    EXPECT_EQ(a.temperature.scale, is_global ? 0.1f : 0.0f) << "layer " << i;
    EXPECT_EQ(c.layers[i].experts() != nullptr, i % 2 == 1) << "layer " << i;
  }
  EXPECT_EQ(c.experts()->shared_ffn_dim, 64u);
  EXPECT_TRUE(c.experts()->weighs_input);
  const ModelConfig whole = read(keys().set("attention.sliding_window", uint64_t{0}));
  for (const LayerConfig& layer : whole.layers) {
    EXPECT_TRUE(layer.attention().has_rope);
    EXPECT_FALSE(layer.attention().is_chunked);
  }
  EXPECT_THAT(error_of(keys().set("attention.sliding_window", uint64_t{100})).message,
              HasSubstr("is 100, expected a multiple of 32"));
  EXPECT_THAT(error_of(keys().set("expert_used_count", uint64_t{2})).message,
              HasSubstr("is 2, expected 1"));
}

TEST(RecentFamilies, layers_of_laguna_may_have_different_numbers_of_heads) {
  const auto keys = [] {
    return Keys("laguna")
        .set("attention.sliding_window", uint64_t{64})
        .set("rope.freq_base_swa", 5e3)
        .set("rope.dimension_count_swa", uint64_t{8});
  };
  std::vector<uint64_t> listed(12, 4);
  listed[1] = 8;
  const ModelConfig c = read(keys().set("attention.head_count", Metadata::Value(listed)));
  EXPECT_EQ(c.layers[0].attention().n_heads, 4u);
  EXPECT_EQ(c.layers[1].attention().n_heads, 8u);
  EXPECT_EQ(c.layers[1].attention().gate_dim(), 8u);  // a value per head
  EXPECT_EQ(c.layers[0].attention().window, 0u);      // the first of four layers is global
  EXPECT_EQ(c.layers[3].attention().window, 64u);
  ASSERT_EQ(c.ropes.size(), 2u);
  EXPECT_EQ(c.ropes[1].base, 5e3f);
  EXPECT_EQ(c.ropes[1].n_dims, 8u);
  EXPECT_EQ(read(keys().set("attention.gating", std::string("per-element")))
                .layers[0]
                .attention()
                .output_gate,
            OutputGate::kOwn);
  EXPECT_THAT(error_of(keys().set("attention.gating", std::string("twice"))).message,
              HasSubstr("is 'twice', expected per-head or per-element"));
  listed[1] = 3;
  EXPECT_EQ(error_of(keys().set("attention.head_count", Metadata::Value(listed))).code,
            ErrorCode::kCorrupt);
  listed[1] = 8;
  EXPECT_THAT(error_of(Keys("llama").set("attention.head_count", Metadata::Value(listed))).message,
              HasSubstr("lists 4 and 8, expected one number of heads"));
}

TEST(RecentFamilies, layers_of_step_3_5_have_limits_and_rotate_all_dimensions_or_half) {
  const auto keys = [] {
    return Keys("step35")
        .set("attention.sliding_window", uint64_t{64})
        .set("rope.dimension_count", uint64_t{16})
        .set("expert_count", uint64_t{8})
        .set("expert_used_count", uint64_t{2})
        .set("leading_dense_block_count", uint64_t{3});
  };
  std::vector<double> limits(12, 0.0);
  limits[1] = 7;
  limits[4] = 16;
  const ModelConfig c = read(keys()
                                 .set("swiglu_clamp_exp", Metadata::Value(limits))
                                 .set("swiglu_clamp_shexp", Metadata::Value(limits)));
  EXPECT_EQ(std::get<MlpConfig>(c.layers[1].feed_forward).activation.limit, 7.0f);
  EXPECT_EQ(std::get<MlpConfig>(c.layers[2].feed_forward).activation.limit, 0.0f);
  EXPECT_EQ(c.layers[4].experts()->limit, 16.0f);
  EXPECT_EQ(c.layers[4].experts()->shared_limit, 16.0f);
  EXPECT_EQ(c.layers[5].experts()->limit, 0.0f);
  EXPECT_EQ(c.experts()->scoring, ExpertScoring::kSigmoid);
  ASSERT_EQ(c.ropes.size(), 2u);
  EXPECT_EQ(c.ropes[0].n_dims, 8u);
  EXPECT_EQ(c.ropes[1].n_dims, 16u);
  EXPECT_EQ(TensorTable(c).find({TensorRole::kRopeDivisors})->shape, std::vector<uint64_t>{8});
  EXPECT_EQ(c.layers[0].attention().gate_dim(), 6u);
  EXPECT_EQ(read(keys()).layers[4].experts()->limit, 0.0f);
  limits[0] = -1;
  EXPECT_THAT(error_of(keys().set("swiglu_clamp_exp", Metadata::Value(limits))).message,
              HasSubstr("is -1 in layer 0, expected a number ≥ 0"));
  limits.pop_back();
  EXPECT_EQ(error_of(keys().set("swiglu_clamp_exp", Metadata::Value(limits))).code,
            ErrorCode::kCorrupt);
  EXPECT_THAT(error_of(keys().set("rope.dimension_count", uint64_t{6})).message,
              HasSubstr("is 6, expected a multiple of 4"));
}

TEST(RecentFamilies, v_of_mimo_v2_is_narrower_than_k_and_windows_have_sinks) {
  const auto keys = [] {
    return Keys("mimo2")
        .set("attention.key_length", uint64_t{24})
        .set("attention.value_length", uint64_t{16})
        .set("attention.value_scale", 0.5)
        .set("attention.sliding_window", uint64_t{64});
  };
  std::vector<uint64_t> n_kv_heads(12, 3);
  n_kv_heads[5] = n_kv_heads[11] = 1;
  const ModelConfig c = read(keys().set("attention.head_count_kv", Metadata::Value(n_kv_heads)));
  const AttentionConfig& local = c.layers[0].attention();
  EXPECT_EQ(local.n_kv_heads, 3u);
  EXPECT_EQ(local.v_dim(), 48u);
  EXPECT_EQ(local.output_dim(), 96u);
  EXPECT_EQ(local.value_scale, 0.5f);
  EXPECT_TRUE(local.has_sinks);
  EXPECT_EQ(c.layers[5].attention().n_kv_heads, 1u);
  EXPECT_FALSE(c.layers[5].attention().has_sinks);
  n_kv_heads = {1, 2, 3, 4, 6, 1, 8, 12, 24, 1, 1, 2};
  EXPECT_THAT(error_of(keys()
                           .set("attention.head_count", uint64_t{24})
                           .set("attention.head_count_kv", Metadata::Value(n_kv_heads)))
                  .message,
              HasSubstr("layers of 10 kinds, expected at most 8"));
  EXPECT_EQ(error_of(Keys("llama").set("attention.value_length", uint64_t{8})).code,
            ErrorCode::kUnsupported);
}

TEST(RecentFamilies, gpt_neox_may_compute_the_halves_of_a_layer_in_turn) {
  EXPECT_TRUE(read(Keys("gptneox")).has_parallel_halves);
  EXPECT_FALSE(read(Keys("gptneox").set("use_parallel_residual", false)).has_parallel_halves);
}

TEST(RecentFamilies, gpt_2_has_positions_and_no_rope) {
  const ModelConfig c = read(Keys("gpt2"));
  for (const LayerConfig& layer : c.layers) EXPECT_FALSE(layer.attention().has_rope);
  const TensorTable table(c);
  const TensorSpec* positions = table.find({TensorRole::kPositions});
  ASSERT_NE(positions, nullptr);
  EXPECT_EQ(positions->shape, (std::vector<uint64_t>{c.n_ctx_train, c.model_dim}));
  EXPECT_EQ(c.n_ctx_within(c.n_ctx_train + 1), c.n_ctx_train);
  EXPECT_EQ(read(Keys("llama")).n_ctx_within(UINT32_MAX), UINT32_MAX);
}

TEST(RecentFamilies, both_halves_of_a_layer_of_command_r_share_a_layer_norm) {
  const ModelConfig c =
      read(Keys("command-r").set("logit_scale", 0.25).set("attention.layer_norm_epsilon", 1e-4));
  EXPECT_EQ(c.norm, NormKind::kLayer);
  EXPECT_EQ(c.norm_eps, 1e-4f);
  EXPECT_EQ(c.logit_scale, 0.25f);
  EXPECT_TRUE(c.has_parallel_halves);
  const TensorTable table(c);
  EXPECT_NE(table.find({TensorRole::kAttentionNorm, 0}), nullptr);
  EXPECT_EQ(table.find({TensorRole::kAttentionNormBias, 0}), nullptr);
  EXPECT_EQ(table.find({TensorRole::kFfnNorm, 0}), nullptr);
}

TEST(RecentFamilies, norms_of_starcoder2_and_the_head_of_phi2_have_biases) {
  const TensorTable starcoder(read(Keys("starcoder2")));
  for (const TensorRole role :
       {TensorRole::kAttentionNormBias, TensorRole::kFfnNormBias, TensorRole::kUpBias}) {
    ASSERT_NE(starcoder.find({role, 3}), nullptr) << name_of(TensorId{role, 3});
    EXPECT_FALSE(starcoder.find({role, 3})->is_optional);
  }
  EXPECT_NE(starcoder.find({TensorRole::kOutputNormBias}), nullptr);
  EXPECT_EQ(starcoder.find({TensorRole::kGate, 3}), nullptr);
  EXPECT_NE(TensorTable(read(Keys("phi2"))).find({TensorRole::kHeadBias}), nullptr);
}

TEST(RecentFamilies, the_output_gate_of_afmoe_is_a_tensor_and_that_of_qwen3_5_a_part_of_q) {
  const TensorTable afmoe(read(Keys("afmoe").set("attention.key_length", uint64_t{16})));
  const TensorSpec* gate = afmoe.find({TensorRole::kOutputGate, 0});
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->shape, (std::vector<uint64_t>{96, 96}));
  EXPECT_EQ(afmoe.find({TensorRole::kQ, 0})->shape, (std::vector<uint64_t>{96, 96}));
}

TEST(RecentFamilies, post_norms_of_muse_glimmer_have_an_epsilon_of_their_own) {
  const ModelConfig c = read(Keys("muse-glimmer"));
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_EQ(c.post_norm_eps, 1e-8f);
  EXPECT_TRUE(c.has_embedding_norm);
  const ModelConfig olmo = read(Keys("olmo2").set("attention.layer_norm_rms_epsilon", 1e-6));
  EXPECT_EQ(olmo.post_norm_eps, 1e-6f);
}

TEST(RecentFamilies, the_first_layer_of_hy_v3_has_no_experts_unless_a_key_says_otherwise) {
  const auto keys = [] {
    return Keys("hy_v3").set("expert_count", uint64_t{8}).set("expert_used_count", uint64_t{2});
  };
  const ModelConfig usual = read(keys());
  EXPECT_EQ(usual.layers[0].experts(), nullptr);
  EXPECT_NE(usual.layers[1].experts(), nullptr);
  EXPECT_EQ(usual.experts()->scoring, ExpertScoring::kSigmoid);
  const ModelConfig stated = read(keys().set("leading_dense_block_count", uint64_t{3}));
  EXPECT_EQ(stated.layers[2].experts(), nullptr);
}

TEST(RecentFamilies, the_parameters_of_xielu_have_keys_without_a_prefix) {
  std::vector<double> raw(12, 0.0);
  raw[3] = 1;
  Keys keys = Keys("apertus");
  keys.set_global("xielu.alpha_p", raw).set_global("xielu.alpha_n", -1.0);
  keys.set_global("xielu.beta", 0.5);
  EXPECT_THAT(error_of(keys).message, HasSubstr("'xielu.eps' is missing"));
  keys.set_global("xielu.eps", -1e-6);
  const ModelConfig c = read(keys);
  const auto of = [&](size_t layer) {
    return std::get<MlpConfig>(c.layers[layer].feed_forward).activation.xielu;
  };
  EXPECT_FLOAT_EQ(of(0).positive, std::log(2.0f));
  EXPECT_FLOAT_EQ(of(3).positive, std::log1p(std::exp(1.0f)));
  EXPECT_FLOAT_EQ(of(3).negative, 0.5f + std::log1p(std::exp(-1.0f)));
  EXPECT_EQ(of(3).linear, 0.5f);
  EXPECT_EQ(of(3).limit, -1e-6f);
  keys.set_global("xielu.alpha_p", std::vector<double>(11, 0.0));
  EXPECT_THAT(error_of(keys).message, HasSubstr("'xielu.alpha_p' has 11 entries, expected 12"));
  keys.set_global("xielu.alpha_p", std::numeric_limits<double>::infinity());
  EXPECT_THAT(error_of(keys).message, HasSubstr("expected a finite number"));
}

Keys indexer_keys(const char* architecture) {
  Keys keys(architecture);
  keys.set("attention.kv_lora_rank", uint64_t{32}).set("attention.q_lora_rank", uint64_t{48});
  keys.set("rope.dimension_count", uint64_t{8});
  keys.set("attention.key_length", uint64_t{40}).set("attention.value_length", uint64_t{32});
  keys.set("attention.key_length_mla", uint64_t{24})
      .set("attention.value_length_mla", uint64_t{12});
  return keys.set("attention.indexer.head_count", uint64_t{4})
      .set("attention.indexer.key_length", uint64_t{16})
      .set("attention.indexer.top_k", uint64_t{64});
}

TEST(RecentFamilies, an_indexer_of_deepseek_v3_2_selects_tokens_in_every_layer) {
  const ModelConfig c = read(indexer_keys("deepseek32"));
  const TensorTable table(c);
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    const IndexerConfig& indexer = c.layers[i].attention().indexer;
    EXPECT_EQ(indexer.n_top, 64u);
    EXPECT_EQ(indexer.n_heads, 4u);
    EXPECT_EQ(indexer.head_dim, 16u);
    EXPECT_EQ(indexer.pairing, RopePairing::kHalves);
    EXPECT_TRUE(indexer.is_own());
    const std::vector<uint64_t> shape = {64, 48};
    EXPECT_EQ(table.find({TensorRole::kIndexQuery, i})->shape, shape);
  }
  EXPECT_EQ(c.ropes.front().pairing, RopePairing::kInterleaved);
  EXPECT_THAT(
      error_of(indexer_keys("deepseek32").set("attention.indexer.key_length", uint64_t{6})).message,
      HasSubstr("key_length' is 6, expected at least the 8 RoPE dimensions"));
  EXPECT_THAT(error_of(indexer_keys("deepseek32").erase("attention.q_lora_rank")).message,
              HasSubstr("q_lora_rank' is 0, expected the rank"));
}

TEST(RecentFamilies, layers_of_glm_5_2_share_the_selection_of_an_earlier_one) {
  const auto own_of = [](const ModelConfig& c) {
    std::vector<bool> own;
    for (const LayerConfig& layer : c.layers) own.push_back(layer.attention().indexer.is_own());
    return own;
  };
  const auto keys = [] { return indexer_keys("glm-dsa"); };
  EXPECT_EQ(own_of(read(keys())), std::vector<bool>(12, true));
  std::vector<bool> listed(12, false);
  listed[0] = listed[7] = true;
  const ModelConfig c =
      read(keys().set("attention.indexer.types", Metadata::Value(std::vector(listed))));
  EXPECT_EQ(own_of(c), listed);
  EXPECT_EQ(c.layers[3].attention().indexer.n_top, 64u);
  EXPECT_EQ(c.attention().indexer.pairing, RopePairing::kInterleaved);
  EXPECT_EQ(TensorTable(c).find({TensorRole::kIndexKey, 3}), nullptr);
  // The first files of GLM 5.2 do not list them.
  const std::vector<bool> usual = {true, true,  true,  false, false, false,
                                   true, false, false, false, true,  false};
  EXPECT_EQ(own_of(read(keys().set("context_length", uint64_t{1} << 20))), usual);
  listed[0] = false;
  EXPECT_THAT(error_of(keys().set("attention.indexer.types", Metadata::Value(listed))).message,
              HasSubstr("begins with false"));
}

Keys minimax_m3_keys() {
  Keys keys("minimax-m3");
  keys.set("rope.dimension_count", uint64_t{8}).set("expert_count", uint64_t{8});
  keys.set("expert_used_count", uint64_t{2}).set("leading_dense_block_count", uint64_t{3});
  keys.set("attention.head_count_kv", uint64_t{2}).set("attention.indexer.head_count", uint64_t{2});
  return keys.set("attention.indexer.key_length", uint64_t{16})
      .set("attention.indexer.top_k", uint64_t{4})
      .set("attention.indexer.block_size", uint64_t{32})
      .set("attention.indexer.local_blocks", uint64_t{1});
}

TEST(RecentFamilies, indexers_of_minimax_m3_select_blocks_in_layers_with_experts) {
  const ModelConfig c = read(minimax_m3_keys());
  const TensorTable table(c);
  for (uint32_t i = 0; i < c.n_layers; ++i) {
    const IndexerConfig& indexer = c.layers[i].attention().indexer;
    EXPECT_EQ(indexer.is_own(), i >= 3) << "layer " << i;
    EXPECT_EQ(table.find({TensorRole::kIndexHeadQuery, i}) != nullptr, i >= 3);
    if (i < 3) continue;
    EXPECT_TRUE(indexer.is_per_head());
    EXPECT_EQ(indexer.n_budget(), 128u);
    EXPECT_EQ(indexer.n_lists(), 2u);
    EXPECT_EQ(indexer.n_local, 1u);
    const std::vector<uint64_t> shape = {32, c.model_dim};
    EXPECT_EQ(table.find({TensorRole::kIndexHeadQuery, i})->shape, shape);
  }
  std::vector<bool> listed(12, false);
  listed[0] = listed[7] = true;
  const ModelConfig by_list =
      read(minimax_m3_keys().set("attention.indexer.types", Metadata::Value(listed)));
  for (uint32_t i = 0; i < 12; ++i) {
    EXPECT_EQ(by_list.layers[i].attention().indexer.is_own(), listed[i]) << "layer " << i;
  }
}

TEST(RecentFamilies, impossible_indexers_of_minimax_m3_are_refused) {
  const auto message = [](std::string_view key, uint64_t value) {
    return error_of(minimax_m3_keys().set(std::string("attention.indexer.").append(key), value))
        .message;
  };
  EXPECT_THAT(message("head_count", 4),
              HasSubstr("head_count' is 4, expected one head for each of the 2 KV heads"));
  EXPECT_THAT(message("key_length", 6), HasSubstr("is 6, expected at least the 8 RoPE dimensions"));
  EXPECT_THAT(message("top_k", uint64_t{1} << 26), HasSubstr("attention.indexer.top_k' is"));
  EXPECT_THAT(message("local_blocks", 5), HasSubstr("local_blocks' is 5"));
  EXPECT_THAT(error_of(minimax_m3_keys().erase("attention.indexer.block_size")).message,
              HasSubstr("attention.indexer.block_size"));
}

}  // namespace
}  // namespace kvik
