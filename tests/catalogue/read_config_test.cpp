#include "catalogue/family.h"
#include "catalogue/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "config_keys.h"

namespace kvik {
namespace {

using testing::HasSubstr;

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

TEST(Config, an_unknown_architecture_is_told_the_known_ones) {
  const Error error = error_of(Keys("mamba"));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("'mamba'"));
  for (const Family* known : all_families()) {
    EXPECT_THAT(error.message, HasSubstr(std::string(known->name)));
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
    EXPECT_THAT(error.message, HasSubstr(std::string("'llama.") + key + "' is \"many\", a string"));
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

TEST(Config, an_odd_number_of_rope_dimensions_is_rejected) {
  const Error error = error_of(Keys("llama").set("rope.dimension_count", uint64_t{7}));
  EXPECT_EQ(error.code, ErrorCode::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("rope over 7 dimensions"));
}

TEST(Config, an_odd_head_size_of_an_encoder_is_refused_by_its_keys) {
  const Error error = error_of(Keys("bert").set("embedding_length", uint64_t{90}));
  EXPECT_THAT(error.message, HasSubstr("heads have 15 dimensions (90 of 'bert.embedding_length' "
                                       "for 6 of 'bert.attention.head_count')"));
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
                                    .set("expert_gating_func", uint64_t{5}));
  EXPECT_EQ(gating.code, ErrorCode::kUnsupported);
  EXPECT_THAT(gating.message, HasSubstr("expert_gating_func' is 5"));
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
  const Llama3RopeConfig stretch = read(llama3).ropes[0].llama3_scaling;
  EXPECT_EQ(stretch.factor, 8.0f);
  EXPECT_EQ(stretch.high_freq_factor, 4.0f);
  EXPECT_EQ(stretch.n_ctx_original, 8192u);
  llama3.set("rope.scaling.low_freq_factor", 4.0);
  EXPECT_EQ(error_of(llama3).code, ErrorCode::kCorrupt);

  // A factor without a type is linear, as older files have it.
  EXPECT_EQ(read(Keys("llama").set("rope.scaling.factor", 2.0)).ropes[0].position_scale, 0.5f);
}

}  // namespace
}  // namespace kvik
