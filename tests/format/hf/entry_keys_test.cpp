// Keys of config.json of DeepSeek V4.
#include <gmock/gmock.h>

#include <vector>

#include "format/hf/mtp_layer.h"
#include "format/hf/small_configs.h"
#include "format/synthetic/synthetic.h"

namespace kvik::hf {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kSizes = R"("head_dim":48,"q_lora_rank":24,"num_key_value_heads":1,
    "o_groups":2,"o_lora_rank":16,"n_routed_experts":8,"num_experts_per_tok":2,
    "moe_intermediate_size":32,"index_n_heads":3,"index_head_dim":32,"index_topk":6)";
constexpr const char* kPublished = R"("qk_rope_head_dim":16,"num_nextn_predict_layers":1,
    "num_hash_layers":2,"compress_ratios":[0,0,4,128,4,128,0],"compress_rope_theta":160000,
    "rope_theta":10000,"rope_scaling":{"type":"yarn","factor":16,
    "original_max_position_embeddings":64,"beta_fast":32,"beta_slow":1})";
constexpr const char* kOfTransformers = R"("partial_rotary_factor":0.3333333333333333,
    "qk_rope_head_dim":16,"rope_parameters":{"main":{"rope_type":"default","rope_theta":10000.0,
    "partial_rotary_factor":0.3333333333333333},"compress":{"rope_type":"yarn","factor":16.0,
    "rope_theta":160000.0,"attention_factor":1.0,"original_max_position_embeddings":64,
    "partial_rotary_factor":0.3333333333333333}},"layer_types":["sliding_attention",
    "sliding_attention","compressed_sparse_attention","heavily_compressed_attention",
    "compressed_sparse_attention","heavily_compressed_attention"],"mlp_layer_types":["hash_moe",
    "hash_moe","moe","moe","moe","moe"],"compress_rates":{"compressed_sparse_attention":4,
    "heavily_compressed_attention":128})";

std::string v4(std::string_view form, std::string_view more = "") {
  return config("deepseek_v4",
                fmt::format("{},{}{}{}", kSizes, form, more.empty() ? "" : ",", more));
}

TEST(HfConfig, both_forms_of_deepseek_v4_have_the_same_keys) {
  for (const char* form : {kPublished, kOfTransformers}) {
    const FolderConfig c = read(v4(form));
    const auto model = read_config(c.metadata);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->n_layers, 6u);
    EXPECT_EQ(model->n_mtp_layers, 0u);
    EXPECT_EQ(real_of(c, "deepseek4.rope.dimension_count"), 16);
    EXPECT_EQ(real_of(c, "deepseek4.hash_layer_count"), 2);
    EXPECT_EQ(real_of(c, "deepseek4.swiglu_clamp_exp"), 10);
    for (uint32_t i = 0; i < 6; ++i) {
      const AttentionConfig& a = model->layers[i].attention();
      EXPECT_EQ(a.joint.entries.n_tokens, i < 2 ? 0u : i % 2 == 0 ? 4u : 128u);
      EXPECT_EQ(a.window, 128u);
      const RopeConfig& rope = model->ropes[a.rope];
      EXPECT_EQ(rope.base, i < 2 ? 10000.0f : 160000.0f);
      EXPECT_EQ(rope.yarn.n_ctx_original, i < 2 ? 0u : 64u);
      EXPECT_EQ(rope.magnitude, 1.0f);
      EXPECT_EQ(rope.n_dims, 16u);
      EXPECT_EQ(model->layers[i].experts()->has_token_table, i < 2);
    }
  }
}

TEST(HfConfig, experts_of_deepseek_v4_are_of_fp4_if_a_key_says_so) {
  const auto floats_of = [](std::string_view in, std::string_view beside) {
    const FolderConfig c = read(
        v4(kPublished, fmt::format(R"("quantization_config":{{"quant_method":"fp8","fmt":"e4m3",
            "scale_fmt":"ue8m0","weight_block_size":[128,128]{}}}{})",
                                   in, beside)));
    return c.block_floats.value_or(BlockFloats{});
  };
  BlockFloats want{.block_rows = 128, .block_cols = 128};
  EXPECT_EQ(floats_of("", ""), want);
  EXPECT_EQ(floats_of("", R"(,"expert_dtype":"fp8")"), want);
  want.has_fp4_experts = true;
  EXPECT_EQ(floats_of("", R"(,"expert_dtype":"fp4")"), want);
  EXPECT_EQ(floats_of(R"(,"expert_dtype":"fp4")", R"(,"expert_dtype":"fp8")"), want);
  const FolderConfig widened = read(v4(kPublished, R"("expert_dtype":"fp4")"));
  EXPECT_FALSE(widened.block_floats);
}

TEST(HfConfig, values_of_deepseek_v4_that_are_not_supported_are_named) {
  for (const auto& [form, more, message] : {
           std::tuple(kPublished, R"("scoring_func":"softmax")", "expected \"sqrtsoftplus\""),
           std::tuple(kPublished, R"("qk_rope_head_dim":15)", "expected an even number up to 48"),
           std::tuple(kPublished, R"("compress_ratios":[0,4])", "an entry for each of 6 layers"),
           std::tuple(kPublished, R"("layer_types":["full_attention"])", "compressed_sparse"),
           std::tuple(kPublished, R"("compress_rate_csa":8)", "expected 4 for the first alone"),
           std::tuple(kPublished, R"("mlp_layer_types":["moe","hash_moe","moe","moe","moe","moe"])",
                      "hash_moe for the first layers"),
           std::tuple(kPublished, R"("mlp_layer_types":["hash_moe","moe"])",
                      "expected a word for each of 6 layers"),
           std::tuple(kPublished, R"("compress_rate_hca":3)",
                      "a divisor or a multiple of 32 for the second"),
           std::tuple(kOfTransformers, R"("rope_scaling":"x")", "'rope_scaling' is \"x\""),
           std::tuple(kPublished,
                      R"("rope_scaling":{"type":"yarn","factor":4,"attention_factor":2})",
                      "'attention_factor' is 2"),
           std::tuple(kPublished, R"("rope_scaling":"yarn")", "expected an object"),
           std::tuple(kPublished, R"("rope_parameters":{"compress":{"rope_type":"yarn"}})",
                      "expected objects main and compress, or none"),
           std::tuple(kPublished, R"("num_key_value_heads":2)", "expected 1"),
           std::tuple(kPublished, R"("num_nextn_predict_layers":"x")", "_layers' is \"x\""),
           std::tuple(kPublished, R"("num_nextn_predict_layers":{})", "_layers' is {}"),
           std::tuple(kPublished, R"("num_nextn_predict_layers":-1)", "_layers' is -1"),
           std::tuple(kPublished, R"("num_nextn_predict_layers":1e300)", "_layers' is 1E300"),
           std::tuple(kPublished, R"("num_nextn_predict_layers":NaN)", "_layers' is "),
           std::tuple(kPublished, R"("num_nextn_predict_layers":1099511627776)", "at most "),
           std::tuple(kPublished, R"("num_nextn_predict_layers":[])", "_layers' is []"),
           std::tuple(kPublished, R"("intermediate_size":null,"moe_intermediate_size":null)",
                      "'moe_intermediate_size' is missing"),
           std::tuple(kPublished, R"("n_routed_experts":null)", "'n_routed_experts' is missing"),
           std::tuple(kPublished,
                      R"("quantization_config":{"quant_method":"fp8"},"expert_dtype":"fp6")",
                      "'expert_dtype' is \"fp6\", expected fp4 or fp8"),
       }) {
    // The last of several values of a key counts.
    EXPECT_THAT(error_of(v4(form, more)).message, HasSubstr(message)) << more;
  }
}

// The error of what a folder describes names its keys, not those of a GGUF file.
TEST(HfConfig, sizes_of_deepseek_v4_that_are_impossible_are_named) {
  const auto error_of_model = [](std::string_view more) {
    FolderConfig folder = read(v4(kPublished, more));
    const auto tensors = make_synthetic("synthetic:test-llama:f32");
    const auto model = read_with_mtp_layer(**tensors, folder);
    return model ? std::string() : model.error().message;
  };
  EXPECT_THAT(error_of_model(R"("rope_scaling":{"type":"yarn","factor":4,
                                "original_max_position_embeddings":0})"),
              StartsWith("config.json: 'original_max_position_embeddings' is 0, expected 1 to"));
  EXPECT_THAT(
      error_of_model(R"("compress_ratios":[1099511627776,0,0,0,0,0])"),
      StartsWith("config.json: 'compress_ratios' is 1099511627776 in layer 0, expected 0, or"));
}

TEST(HfConfig, null_in_a_folder_of_deepseek_v4_is_a_missing_value) {
  EXPECT_EQ(real_of(read(v4(kPublished, R"("head_dim":null,"qk_rope_head_dim":64)")),
                    "deepseek4.attention.key_length"),
            512);
  read(v4(kPublished, R"("rope_scaling":{"type":"yarn","factor":4,"attention_factor":null,
                         "original_max_position_embeddings":64})"));
}

}  // namespace
}  // namespace kvik::hf
