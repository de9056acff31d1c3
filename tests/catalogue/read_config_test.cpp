#include "catalogue/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace kvik {
namespace {

using testing::HasSubstr;

// A file's keys, complete and right, for tests to spoil.
class Keys {
 public:
  explicit Keys(std::string architecture) : prefix_(architecture + ".") {
    values_["general.architecture"] = std::move(architecture);
    set("block_count", uint64_t{12});
    set("embedding_length", uint64_t{96});
    set("feed_forward_length", uint64_t{224});
    set("attention.head_count", uint64_t{6});
    set("attention.head_count_kv", uint64_t{2});
    set("context_length", uint64_t{4096});
    set("vocab_size", uint64_t{300});
  }

  Keys& set(const std::string& key, Metadata::Value value) {
    values_[prefix_ + key] = std::move(value);
    return *this;
  }
  Keys& set_global(const std::string& key, Metadata::Value value) {
    values_[key] = std::move(value);
    return *this;
  }
  Keys& erase(const std::string& key) {
    values_.erase(prefix_ + key);
    return *this;
  }

  Result<ModelConfig> read() const {
    Metadata metadata;
    for (const auto& [key, value] : values_) metadata.insert(key, value);
    return read_config(metadata);
  }

 private:
  std::string prefix_;
  std::map<std::string, Metadata::Value> values_;
};

ModelConfig read(const Keys& keys) {
  auto config = keys.read();
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? *std::move(config) : ModelConfig{};
}

Error error_of(const Keys& keys) {
  auto config = keys.read();
  EXPECT_FALSE(config.has_value());
  return config ? Error{ErrorCode::kIo, "", ""} : config.error();
}

TEST(Config, geometry_is_what_the_keys_say) {
  const ModelConfig c = read(Keys("llama"));
  EXPECT_EQ(c.n_layers, 12u);
  EXPECT_EQ(c.model_dim, 96u);
  EXPECT_EQ(c.ffn_dim, 224u);
  EXPECT_EQ(c.attention().n_heads, 6u);
  EXPECT_EQ(c.attention().n_kv_heads, 2u);
  EXPECT_EQ(c.n_ctx_train, 4096u);
  EXPECT_EQ(c.n_vocab, 300u);
  EXPECT_EQ(c.layers.size(), 12u);
}

TEST(Config, what_files_leave_out_has_the_usual_values) {
  const ModelConfig c = read(Keys("llama").erase("attention.head_count_kv"));
  EXPECT_EQ(c.attention().n_kv_heads, 6u);
  EXPECT_EQ(c.attention().head_dim, 16u);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_EQ(c.attention().scale, 0.25f);
  EXPECT_EQ(c.attention().soft_cap, 0.0f);
  EXPECT_EQ(c.logit_soft_cap, 0.0f);
  EXPECT_EQ(c.name, "llama");
  ASSERT_EQ(c.ropes.size(), 1u);
  EXPECT_EQ(c.ropes[0].base, 10000.0f);
  EXPECT_EQ(c.ropes[0].n_dims, 16u);
  EXPECT_EQ(c.ropes[0].position_scale, 1.0f);
}

TEST(Config, what_files_say_goes_before_the_usual_values) {
  const ModelConfig c = read(Keys("qwen3")
                                 .set_global("general.name", std::string("Quick"))
                                 .set("attention.key_length", uint64_t{32})
                                 .set("attention.value_length", uint64_t{32})
                                 .set("attention.layer_norm_rms_epsilon", 1e-6)
                                 .set("attention.scale", 0.5)
                                 .set("rope.freq_base", 1e6)
                                 .set("rope.dimension_count", uint64_t{8})
                                 .set("rope.scaling.type", std::string("linear"))
                                 .set("rope.scaling.factor", 4.0));
  EXPECT_EQ(c.name, "Quick");
  EXPECT_EQ(c.attention().head_dim, 32u);
  EXPECT_EQ(c.norm_eps, 1e-6f);
  EXPECT_EQ(c.attention().scale, 0.5f);
  EXPECT_EQ(c.ropes[0].base, 1e6f);
  EXPECT_EQ(c.ropes[0].n_dims, 8u);
  EXPECT_EQ(c.ropes[0].position_scale, 0.25f);
}

TEST(Config, integers_of_either_sign_are_numbers) {
  EXPECT_EQ(read(Keys("llama").set("block_count", int64_t{3})).n_layers, 3u);
  EXPECT_EQ(read(Keys("llama").set("rope.freq_base", uint64_t{500000})).ropes[0].base, 5e5f);
}

TEST(Config, without_a_vocabulary_size_the_words_are_counted) {
  const std::vector<std::string> words(77, "w");
  const ModelConfig c =
      read(Keys("llama").erase("vocab_size").set_global("tokenizer.ggml.tokens", words));
  EXPECT_EQ(c.n_vocab, 77u);
}

TEST(Config, llama_turns_neighbouring_pairs_and_has_no_extras) {
  const ModelConfig c = read(Keys("llama"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kInterleaved);
  EXPECT_EQ(c.activation, Activation::kSilu);
  EXPECT_EQ(c.embedding_scale, 1.0f);
  EXPECT_FALSE(c.attention().has_qkv_bias);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kNone);
  EXPECT_FALSE(c.has_post_norms);
}

TEST(Config, a_window_without_a_pattern_is_for_every_layer) {
  const ModelConfig c = read(Keys("llama").set("attention.sliding_window", uint64_t{64}));
  for (const LayerConfig& layer : c.layers) {
    EXPECT_EQ(layer.attention().window, 64u);
    EXPECT_EQ(layer.attention().rope, 0u);
  }
}

TEST(Config, a_window_of_zero_is_none) {
  const ModelConfig c = read(Keys("gemma2").set("attention.sliding_window", uint64_t{0}));
  for (const LayerConfig& layer : c.layers) EXPECT_EQ(layer.attention().window, 0u);
}

TEST(Config, qwen2_has_biases_and_turns_halves) {
  const ModelConfig c = read(Keys("qwen2"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kHalves);
  EXPECT_TRUE(c.attention().has_qkv_bias);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kNone);
  EXPECT_FALSE(c.has_post_norms);
  EXPECT_EQ(c.activation, Activation::kSilu);
}

TEST(Config, qwen3_norms_its_heads_and_turns_halves) {
  const ModelConfig c = read(Keys("qwen3"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kHalves);
  EXPECT_FALSE(c.attention().has_qkv_bias);
  EXPECT_EQ(c.attention().qk_norm, QkNorm::kHead);
  EXPECT_FALSE(c.has_post_norms);
}

TEST(Config, gemma2_caps_scales_and_sees_a_window_in_every_other_layer) {
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

TEST(Config, gemma3_turns_local_layers_by_a_base_of_their_own_and_unscaled) {
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

TEST(Config, an_unknown_architecture_is_told_the_known_ones) {
  const Error error = error_of(Keys("mamba"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("'mamba'"));
  for (const char* known : {"llama", "qwen2", "qwen2moe", "qwen3", "qwen3moe", "gemma2", "gemma3",
                            "phi3", "granite", "olmo2"}) {
    EXPECT_THAT(error.message, HasSubstr(known));
  }
}

TEST(Config, no_architecture_at_all_is_corrupt) {
  const auto config = read_config(Metadata());
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(config.error().message, HasSubstr("general.architecture"));
}

TEST(Config, each_key_that_must_be_there_is_named_when_missing) {
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length",
                          "attention.head_count", "context_length", "vocab_size"}) {
    const Error error = error_of(Keys("llama").erase(key));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr(std::string("'llama.") + key + "' is missing"));
  }
}

TEST(Config, each_key_of_the_wrong_type_is_named) {
  for (const char* key :
       {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
        "attention.head_count_kv", "context_length", "vocab_size", "attention.key_length",
        "attention.value_length", "expert_count", "attention.layer_norm_rms_epsilon",
        "attention.scale", "attn_logit_softcapping", "final_logit_softcapping", "rope.freq_base",
        "rope.dimension_count", "attention.sliding_window"}) {
    const Error error = error_of(Keys("llama").set(key, std::string("many")));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr(std::string("'llama.") + key + "' is a string"));
  }
  const Error error = error_of(Keys("llama").set("rope.scaling.type", uint64_t{1}));
  EXPECT_THAT(error.message, HasSubstr("'llama.rope.scaling.type'"));
}

TEST(Config, each_count_out_of_bounds_is_named_with_its_value) {
  const std::vector<std::pair<const char*, uint64_t>> cases = {
      {"block_count", 0},
      {"block_count", uint64_t{1} << 31},
      {"block_count", UINT64_MAX},
      {"embedding_length", 0},
      {"embedding_length", uint64_t{1} << 42},
      {"feed_forward_length", (uint64_t{1} << 32) + 1},
      {"attention.head_count", 0},
      {"attention.head_count", 1 << 20},
      {"attention.head_count_kv", 0},
      {"context_length", 0},
      {"context_length", uint64_t{1} << 63},
      {"vocab_size", 0},
      {"vocab_size", uint64_t{1} << 32},
      {"attention.key_length", 4096},
      {"rope.dimension_count", 18},
      {"attention.sliding_window", uint64_t{1} << 40},
  };
  for (const auto& [key, value] : cases) {
    const Error error = error_of(Keys("llama").set(key, value));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr(std::string("llama.") + key));
    EXPECT_THAT(error.message, HasSubstr(std::to_string(value)));
  }
}

TEST(Config, negative_counts_are_refused) {
  const Error error = error_of(Keys("llama").set("block_count", int64_t{-1}));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("-1"));
}

TEST(Config, heads_that_cannot_share_kv_heads_evenly_are_refused) {
  const Error error = error_of(Keys("llama").set("attention.head_count_kv", uint64_t{4}));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("attention.head_count_kv' is 4"));
}

TEST(Config, an_odd_number_of_turning_dimensions_is_refused) {
  const Error error = error_of(Keys("llama").set("rope.dimension_count", uint64_t{7}));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("rope over 7 dimensions"));
}

TEST(Config, numbers_that_are_no_numbers_are_refused) {
  for (const char* key : {"attention.layer_norm_rms_epsilon", "attention.scale", "rope.freq_base",
                          "attn_logit_softcapping", "final_logit_softcapping"}) {
    // The last is finite, but not as a float.
    for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), 1e300}) {
      const Error error = error_of(Keys("llama").set(key, bad));
      EXPECT_EQ(error.code, ErrorCode::kCorrupt) << key << " " << bad;
      EXPECT_THAT(error.message, HasSubstr(key));
    }
  }
  EXPECT_EQ(error_of(Keys("llama").set("rope.freq_base", 0.0)).code, ErrorCode::kCorrupt);
}

TEST(Config, a_scaling_factor_that_cannot_be_divided_by_is_refused) {
  for (const double factor : {0.0, 1e-320, 1e-42}) {
    const Error error = error_of(Keys("llama")
                                     .set("rope.scaling.type", std::string("linear"))
                                     .set("rope.scaling.factor", factor));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << factor;
    EXPECT_THAT(error.message, HasSubstr("rope.scaling.factor"));
  }
}

TEST(Config, features_that_nothing_computes_are_unsupported_by_name) {
  const Error experts = error_of(Keys("gemma2").set("expert_count", uint64_t{8}));
  EXPECT_EQ(experts.code, ErrorCode::kUnsupported);
  EXPECT_THAT(experts.message, HasSubstr("'gemma2.expert_count' is 8"));
  EXPECT_THAT(experts.message, HasSubstr("llama, qwen2moe, qwen3moe"));

  const Error lengths = error_of(Keys("llama").set("attention.value_length", uint64_t{32}));
  EXPECT_EQ(lengths.code, ErrorCode::kUnsupported);
  EXPECT_THAT(lengths.message, HasSubstr("value_length' is 32"));

  const Error su = error_of(Keys("llama").set("rope.scaling.type", std::string("su")));
  EXPECT_EQ(su.code, ErrorCode::kUnsupported);
  EXPECT_THAT(su.message, HasSubstr("'su'"));
  EXPECT_THAT(su.message, HasSubstr("none, linear, llama3, yarn or longrope"));

  const Error gating = error_of(Keys("llama")
                                    .set("expert_count", uint64_t{8})
                                    .set("expert_used_count", uint64_t{2})
                                    .set("expert_gating_func", uint64_t{4}));
  EXPECT_EQ(gating.code, ErrorCode::kUnsupported);
  EXPECT_THAT(gating.message, HasSubstr("expert_gating_func' is 4"));
}

TEST(Config, mixtures_of_experts_are_what_the_keys_say) {
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

TEST(Config, the_first_layers_of_a_mixture_may_be_dense) {
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

TEST(Config, more_experts_used_than_there_are_or_none_are_refused) {
  for (const uint64_t n_used : {uint64_t{0}, uint64_t{9}, UINT64_MAX}) {
    const Error error = error_of(
        Keys("qwen3moe").set("expert_count", uint64_t{8}).set("expert_used_count", n_used));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("expert_used_count"));
  }
  EXPECT_EQ(error_of(Keys("qwen3moe").set("expert_count", uint64_t{1} << 63)).code,
            ErrorCode::kCorrupt);
}

TEST(Config, granite_scales_what_enters_runs_through_and_leaves) {
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

TEST(Config, olmo2_norms_behind_and_whole_rows) {
  const ModelConfig c = read(Keys("olmo2"));
  EXPECT_FALSE(c.has_pre_norms);
  EXPECT_TRUE(c.has_post_norms);
  EXPECT_EQ(c.attention().q_norm_dim(), 96u);
  EXPECT_EQ(c.attention().k_norm_dim(), 32u);
}

TEST(Config, phi3_is_fused_and_turns_by_the_context) {
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

TEST(Config, the_largest_gemmas_scale_scores_by_their_heads_share_of_the_width) {
  for (const auto& [family, n_layers] : {std::pair("gemma2", 46u), {"gemma3", 62u}}) {
    Keys keys = Keys(family).set("attention.key_length", uint64_t{32});
    keys.set("attention.value_length", uint64_t{32});
    EXPECT_FLOAT_EQ(read(keys).attention().scale, 1 / std::sqrt(32.0f)) << family;
    EXPECT_EQ(read(keys.set("block_count", uint64_t{n_layers})).attention().scale, 0.25f) << family;
  }
}

TEST(Config, stretched_ropes_are_read) {
  const ModelConfig yarn = read(Keys("qwen2")
                                    .set("rope.scaling.type", std::string("yarn"))
                                    .set("rope.scaling.factor", 4.0)
                                    .set("rope.scaling.original_context_length", uint64_t{32768}));
  EXPECT_EQ(yarn.ropes[0].yarn.n_ctx_original, 32768u);
  EXPECT_EQ(yarn.ropes[0].position_scale, 0.25f);
  EXPECT_FLOAT_EQ(yarn.ropes[0].magnitude, 1 + 0.1f * std::log(4.0f));

  Keys llama3 = Keys("llama").set("rope.scaling.type", std::string("llama3"));
  llama3.set("rope.scaling.factor", 8.0).set("rope.scaling.low_freq_factor", 1.0);
  llama3.set("rope.scaling.original_context_length", uint64_t{8192});
  const SmoothStretchConfig stretch = read(llama3).ropes[0].smooth_stretch;
  EXPECT_EQ(stretch.factor, 8.0f);
  EXPECT_EQ(stretch.high_freq_factor, 4.0f);
  EXPECT_EQ(stretch.n_ctx_original, 8192u);
  llama3.set("rope.scaling.low_freq_factor", 4.0);
  EXPECT_EQ(error_of(llama3).code, ErrorCode::kCorrupt);

  // A factor without a type is linear, as older files have it.
  EXPECT_EQ(read(Keys("llama").set("rope.scaling.factor", 2.0)).ropes[0].position_scale, 0.5f);
}

Keys latent_keys() {
  Keys keys("deepseek2");
  keys.set("attention.kv_lora_rank", uint64_t{32}).set("rope.dimension_count", uint64_t{8});
  keys.set("attention.key_length", uint64_t{40}).set("attention.value_length", uint64_t{32});
  return keys.set("attention.key_length_mla", uint64_t{24})
      .set("attention.value_length_mla", uint64_t{12});
}

TEST(Config, latent_attention_has_one_head_of_keys_whose_beginning_is_v) {
  const AttentionConfig a = read(latent_keys()).attention();
  EXPECT_EQ(a.n_kv_heads, 1u);
  EXPECT_EQ(a.head_dim, 40u);
  EXPECT_EQ(a.latent.rank, 32u);
  EXPECT_EQ(a.latent.still_dim, 16u);
  EXPECT_EQ(a.latent.turning_dim, 8u);
  EXPECT_EQ(a.output_dim(), 6u * 12);
  EXPECT_FLOAT_EQ(a.scale, 1 / std::sqrt(24.0f));
}

TEST(Config, files_of_2024_state_a_latent_heads_widths_alone) {
  Keys keys = latent_keys().erase("attention.key_length_mla").erase("attention.value_length_mla");
  keys.set("attention.key_length", uint64_t{24}).set("attention.value_length", uint64_t{12});
  const LatentConfig l = read(keys).attention().latent;
  EXPECT_EQ(l.q_dim(), 24u);
  EXPECT_EQ(l.value_dim, 12u);
}

TEST(Config, latent_attention_over_long_contexts_scales_scores_and_not_what_turns) {
  Keys keys = latent_keys().set("rope.scaling.type", std::string("yarn"));
  keys.set("rope.scaling.factor", 40.0).set("rope.scaling.yarn_log_multiplier", 0.0707);
  const ModelConfig c = read(keys);
  const double magnitude = 1 + 0.1 * 0.707 * std::log(40.0);
  EXPECT_EQ(c.ropes[0].magnitude, 1.0f);
  EXPECT_NEAR(c.attention().scale, magnitude * magnitude / std::sqrt(24.0), 1e-6);
}

TEST(Config, a_latent_width_that_cannot_be_is_refused_by_name) {
  for (const uint64_t rank : {0, 7, 24, 1024, 5000}) {
    const Error error = error_of(latent_keys().set("attention.kv_lora_rank", rank));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt);
    EXPECT_THAT(error.message, HasSubstr("deepseek2.attention.kv_lora_rank"));
  }
  EXPECT_THAT(error_of(latent_keys().set("rope.dimension_count", uint64_t{24})).message,
              HasSubstr("fewer than all to turn"));
}

TEST(Config, gpt_oss_has_sinks_biases_and_a_window_in_every_other_layer) {
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

TEST(Config, layers_that_guess_further_tokens_are_not_layers_of_the_model) {
  Keys keys = Keys("glm4moe").set("expert_count", uint64_t{8});
  keys.set("expert_used_count", uint64_t{2}).set("expert_shared_count", uint64_t{2});
  keys.set("expert_feed_forward_length", uint64_t{64}).set("nextn_predict_layers", uint64_t{1});
  const ModelConfig c = read(keys);
  EXPECT_EQ(c.n_layers, 11u);
  EXPECT_EQ(c.n_guessing_layers, 1u);
  EXPECT_EQ(c.experts()->shared_ffn_dim, 128u);
  EXPECT_EQ(c.experts()->scoring, ExpertScoring::kSigmoid);
  EXPECT_EQ(error_of(keys.set("nextn_predict_layers", uint64_t{12})).code, ErrorCode::kCorrupt);
}

TEST(Config, groups_of_experts_are_of_one_size_and_have_enough_to_choose_from) {
  Keys keys = latent_keys().set("expert_count", uint64_t{8}).set("expert_used_count", uint64_t{4});
  keys.set("expert_group_count", uint64_t{4}).set("expert_group_used_count", uint64_t{2});
  EXPECT_EQ(read(keys).experts()->n_groups_used, 2u);
  EXPECT_THAT(error_of(keys.set("expert_group_used_count", uint64_t{1})).message,
              HasSubstr("expert_group_count"));
  keys.set("expert_group_used_count", uint64_t{2}).set("expert_group_count", uint64_t{3});
  EXPECT_EQ(error_of(keys).code, ErrorCode::kCorrupt);
}

TEST(Config, queries_of_mistral3_grow_with_their_position) {
  Keys keys = Keys("mistral3").set("attention.temperature_scale", 0.1);
  keys.set("rope.scaling.original_context_length", uint64_t{1024});
  EXPECT_EQ(read(keys).attention().temperature.length, 1024u);
  EXPECT_EQ(error_of(keys.erase("rope.scaling.original_context_length")).code, ErrorCode::kCorrupt);
}

TEST(Config, no_experts_are_no_trouble) {
  EXPECT_EQ(read(Keys("llama").set("expert_count", uint64_t{0})).n_layers, 12u);
}

}  // namespace
}  // namespace kvik
