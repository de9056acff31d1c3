#include "model/config.h"

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
  EXPECT_EQ(c.n_heads, 6u);
  EXPECT_EQ(c.n_kv_heads, 2u);
  EXPECT_EQ(c.n_ctx_train, 4096u);
  EXPECT_EQ(c.n_vocab, 300u);
  EXPECT_EQ(c.layers.size(), 12u);
}

TEST(Config, what_files_leave_out_has_the_usual_values) {
  const ModelConfig c = read(Keys("llama").erase("attention.head_count_kv"));
  EXPECT_EQ(c.n_kv_heads, 6u);
  EXPECT_EQ(c.head_dim, 16u);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_EQ(c.attention_scale, 0.25f);
  EXPECT_EQ(c.attention_soft_cap, 0.0f);
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
  EXPECT_EQ(c.head_dim, 32u);
  EXPECT_EQ(c.norm_eps, 1e-6f);
  EXPECT_EQ(c.attention_scale, 0.5f);
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
  EXPECT_FALSE(c.has_qkv_bias);
  EXPECT_FALSE(c.has_qk_norm);
  EXPECT_FALSE(c.has_post_norms);
}

TEST(Config, a_window_without_a_pattern_is_for_every_layer) {
  const ModelConfig c = read(Keys("llama").set("attention.sliding_window", uint64_t{64}));
  for (const LayerConfig& layer : c.layers) {
    EXPECT_EQ(layer.window, 64u);
    EXPECT_EQ(layer.rope, 0u);
  }
}

TEST(Config, a_window_of_zero_is_none) {
  const ModelConfig c = read(Keys("gemma2").set("attention.sliding_window", uint64_t{0}));
  for (const LayerConfig& layer : c.layers) EXPECT_EQ(layer.window, 0u);
}

TEST(Config, qwen2_has_biases_and_turns_halves) {
  const ModelConfig c = read(Keys("qwen2"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kHalves);
  EXPECT_TRUE(c.has_qkv_bias);
  EXPECT_FALSE(c.has_qk_norm);
  EXPECT_FALSE(c.has_post_norms);
  EXPECT_EQ(c.activation, Activation::kSilu);
}

TEST(Config, qwen3_norms_its_heads_and_turns_halves) {
  const ModelConfig c = read(Keys("qwen3"));
  EXPECT_EQ(c.ropes[0].pairing, RopePairing::kHalves);
  EXPECT_FALSE(c.has_qkv_bias);
  EXPECT_TRUE(c.has_qk_norm);
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
  EXPECT_FALSE(c.has_qk_norm);
  EXPECT_EQ(c.attention_soft_cap, 50.0f);
  EXPECT_EQ(c.logit_soft_cap, 30.0f);
  ASSERT_EQ(c.ropes.size(), 1u);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(c.layers[i].window, i % 2 == 0 ? 512u : 0u) << "layer " << i;
  }
}

TEST(Config, gemma3_turns_local_layers_by_a_base_of_their_own_and_unscaled) {
  const ModelConfig c = read(Keys("gemma3")
                                 .set("attention.sliding_window", uint64_t{512})
                                 .set("rope.freq_base", 1e6)
                                 .set("rope.scaling.type", std::string("linear"))
                                 .set("rope.scaling.factor", 8.0));
  EXPECT_TRUE(c.has_qk_norm);
  EXPECT_TRUE(c.has_post_norms);
  EXPECT_EQ(c.embedding_scale, std::sqrt(96.0f));
  ASSERT_EQ(c.ropes.size(), 2u);
  EXPECT_EQ(c.ropes[0].base, 1e6f);
  EXPECT_EQ(c.ropes[0].position_scale, 0.125f);
  EXPECT_EQ(c.ropes[1].base, 10000.0f);
  EXPECT_EQ(c.ropes[1].position_scale, 1.0f);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    const bool is_global = i % 6 == 5;
    EXPECT_EQ(c.layers[i].window, is_global ? 0u : 512u) << "layer " << i;
    EXPECT_EQ(c.layers[i].rope, is_global ? 0u : 1u) << "layer " << i;
  }
}

TEST(Config, an_unknown_architecture_is_told_the_known_ones) {
  const Error error = error_of(Keys("mamba"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("'mamba'"));
  for (const char* known : {"llama", "qwen2", "qwen3", "gemma2", "gemma3"}) {
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
  const Error experts = error_of(Keys("llama").set("expert_count", uint64_t{8}));
  EXPECT_EQ(experts.code, ErrorCode::kUnsupported);
  EXPECT_THAT(experts.message, HasSubstr("'llama.expert_count' is 8"));

  const Error lengths = error_of(Keys("llama").set("attention.value_length", uint64_t{32}));
  EXPECT_EQ(lengths.code, ErrorCode::kUnsupported);
  EXPECT_THAT(lengths.message, HasSubstr("value_length' is 32"));

  const Error yarn = error_of(Keys("llama").set("rope.scaling.type", std::string("yarn")));
  EXPECT_EQ(yarn.code, ErrorCode::kUnsupported);
  EXPECT_THAT(yarn.message, HasSubstr("'yarn'"));
}

TEST(Config, no_experts_are_no_trouble) {
  EXPECT_EQ(read(Keys("llama").set("expert_count", uint64_t{0})).n_layers, 12u);
}

}  // namespace
}  // namespace kvik
