#include "format/hf/names/config_names.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <utility>

#include "format/hf/mtp_layer.h"
#include "format/hf/small_configs.h"
#include "format/synthetic/synthetic.h"

namespace kvik::hf {
namespace {

using ::testing::StartsWith;

// Returns the error of the model that a folder with these keys describes.
std::string error_of_model(std::string_view type, std::string_view usual, std::string_view more) {
  const std::string text = config(type, fmt::format("{},{}", usual, more));
  auto stated = read_folder_config(text);
  if (!stated) return stated.error().message;
  FolderConfig folder = std::move(*stated);
  const auto tensors = make_synthetic("synthetic:test-llama:f32");  // no MTP layer
  const auto model = read_with_mtp_layer(**tensors, folder);
  return model ? std::string() : model.error().message;
}

std::string error_with(std::string_view more) {
  return error_of_model("glm_moe_dsa",
                        R"("kv_lora_rank":32,"q_lora_rank":24,"qk_nope_head_dim":16,
                           "qk_rope_head_dim":8,"v_head_dim":16,"n_routed_experts":8,
                           "num_experts_per_tok":2,"moe_intermediate_size":32)",
                        more);
}

TEST(ConfigNames, errors_of_a_folder_name_the_keys_of_its_config) {
  EXPECT_THAT(error_with(R"("index_topk":0)"),
              StartsWith("config.json: 'index_topk' is 0, expected 1 to"));
  EXPECT_THAT(error_with(R"("index_n_heads":"x")"),
              StartsWith("config.json: 'index_n_heads' is \"x\", a string, expected"));
  EXPECT_THAT(error_with(R"("index_n_heads":[4,4])"),
              StartsWith("config.json: 'index_n_heads' is an array of floats, expected"));
  EXPECT_THAT(error_with(R"("index_head_dim":4)"),
              StartsWith("config.json: 'index_head_dim' is 4, expected at least the 8 RoPE"));
  EXPECT_THAT(error_with(R"("n_group":3,"topk_group":1)"),
              StartsWith("config.json: 'n_group' is 3, 1 of them used"));
}

TEST(ConfigNames, errors_of_glm_5_3_name_the_keys_of_its_blocks_and_streams) {
  const auto error_with = [](std::string_view more) {
    FolderConfig folder = read(config(
        "glm5_next_text", fmt::format(R"("kv_lora_rank":32,"q_lora_rank":24,"qk_nope_head_dim":16,
            "v_head_dim":16,"n_routed_experts":8,"num_experts_per_tok":2,"linear_num_heads":4,
            "moe_intermediate_size":32,"linear_head_dim":16,{})",
                                      more)));
    const auto tensors = make_synthetic("synthetic:test-llama:f32");
    const auto model = read_with_mtp_layer(**tensors, folder);
    return model ? std::string() : model.error().message;
  };
  EXPECT_THAT(error_with(R"("index_kpool":3)"),
              StartsWith("config.json: 'index_kpool' is 3, expected a divisor of 32"));
  EXPECT_THAT(error_with(R"("index_kpool_always_select_tail":false)"),
              StartsWith("config.json: 'index_kpool_always_select_tail' is false, expected true"));
  EXPECT_THAT(error_with(R"("hc_mult":1)"), StartsWith("config.json: 'hc_mult' is 1, expected 2"));
  EXPECT_THAT(error_with(R"("hc_sinkhorn_iters":0)"),
              StartsWith("config.json: 'hc_sinkhorn_iters' is 0, expected 1 to"));
  EXPECT_THAT(error_with(R"("hc_eps":0)"), StartsWith("config.json: 'hc_eps' is 0, expected"));
  EXPECT_THAT(error_with(R"("indexer_types":["full","full","full","shared","full","full"])"),
              StartsWith("config.json: 'indexer_types' is false for layer 3, expected"));
}

TEST(ConfigNames, sizes_of_kda_are_named_as_the_folder_names_them) {
  const auto glm = [](std::string_view sizes) {
    return error_of(config("glm5_next_text",
                           fmt::format(R"("kv_lora_rank":32,"q_lora_rank":24,"qk_nope_head_dim":16,
            "v_head_dim":16,"n_routed_experts":8,"num_experts_per_tok":2,
            "moe_intermediate_size":32,{})",
                                       sizes)))
        .message;
  };
  const auto kimi = [](std::string_view more) {
    return error_of(config("kimi_linear", fmt::format(R"("kv_lora_rank":32,"qk_nope_head_dim":16,
            "v_head_dim":16,"qk_rope_head_dim":8,"num_experts":8,"num_experts_per_token":2,
            "moe_intermediate_size":32,"first_k_dense_replace":1,"linear_attn_config":
            {{"num_heads":4,"full_attn_layers":[4],{}}})",
                                                      more)))
        .message;
  };
  constexpr const char* kPart = R"("linear_attn_config":{{"num_heads":4,{}}})";
  EXPECT_EQ(glm(fmt::format(kPart, R"("head_dim":33,"short_conv_kernel_size":4)")),
            "config.json: 'linear_attn_config.head_dim' is 33, expected a multiple of 16, at most "
            "1024");
  EXPECT_EQ(glm(fmt::format(kPart, R"("head_dim":16,"short_conv_kernel_size":1)")),
            "config.json: 'linear_attn_config.short_conv_kernel_size' is 1, expected an integer "
            "from 2 to 16");
  EXPECT_EQ(glm(R"("linear_num_heads":4,"linear_head_dim":16,"linear_conv_kernel_dim":33)"),
            "config.json: 'linear_conv_kernel_dim' is 33, expected an integer from 2 to 16");
  EXPECT_THAT(kimi(R"("head_dim":8,"short_conv_kernel_size":4)"),
              StartsWith("config.json: 'linear_attn_config.head_dim' is 8, expected a multiple"));
}

TEST(ConfigNames, multipliers_of_granite_have_their_names) {
  for (const char* type : {"granite", "granite_switch"}) {
    for (const char* key : {"embedding_multiplier", "residual_multiplier", "logits_scaling"}) {
      const std::string error = error_of_model(
          type, R"("num_adapters":1,"adapter_token_ids":[7],"adapter_substitute_token_ids":[8])",
          fmt::format(R"("{}":0)", key));
      EXPECT_EQ(error, fmt::format("config.json: '{}' is 0, expected a number > 0", key));
    }
    EXPECT_THAT(
        error_of_model(
            type, R"("num_adapters":1,"adapter_token_ids":[7],"adapter_substitute_token_ids":[8])",
            R"("attention_multiplier":-1)"),
        StartsWith("config.json: 'attention_multiplier' is -1, expected"));
  }
}

TEST(ConfigNames, a_switch_is_0_or_1) {
  for (const char* key : {"mhc", "mla_use_nope"}) {
    for (const char* value : {"-1", "2", "33"}) {
      EXPECT_EQ(error_of(config("glm5_next_text", fmt::format(R"("{}":{})", key, value))).message,
                fmt::format("config.json: '{}' is {}, expected true", key, value));
    }
  }
}

TEST(ConfigNames, rope_scaling_is_an_object_also_beside_rope_parameters) {
  EXPECT_EQ(error_of(config("llama", R"("rms_norm_eps":1e-5,"rope_scaling":"x",
                                        "rope_parameters":{"rope_type":"default"})"))
                .message,
            "config.json: 'rope_scaling' is \"x\", expected an object");
}

TEST(ConfigNames, an_empty_list_is_named_and_not_taken_for_a_missing_key) {
  EXPECT_EQ(error_with(R"("index_n_heads":[])"),
            "config.json: 'index_n_heads' is [], expected a value, or one for each layer");
}

TEST(ConfigNames, keys_of_a_part_are_named_with_the_part) {
  const auto error = [](std::string_view part) {
    return error_of_model(
        "minimax_m3_vl_text",
        R"("head_dim":16,"num_key_value_heads":2,"num_local_experts":8,"num_experts_per_tok":2)",
        fmt::format(R"("sparse_attention_config":{{"sparse_attention_freq":[0,0,0,1,1,1],{}}})",
                    part));
  };
  const std::string begin = "config.json: 'sparse_attention_config.";
  EXPECT_THAT(error(R"("sparse_num_index_heads":0)"),
              StartsWith(begin + "sparse_num_index_heads' is 0, expected 1 to"));
  EXPECT_THAT(error(R"("sparse_num_index_heads":2,"sparse_block_size":"x")"),
              StartsWith(begin + "sparse_block_size' is \"x\", a string"));
  EXPECT_THAT(error(R"("sparse_num_index_heads":2,"sparse_topk_blocks":4,"sparse_local_block":5)"),
              StartsWith(begin + "sparse_local_block' is 5, expected 0 to 4"));
  EXPECT_THAT(error_of_model("minimax_m3_vl_text", R"("num_local_experts":8)",
                             R"("sparse_attention_config":{"sparse_attention_freq":[0,1]})"),
              StartsWith(begin + "sparse_attention_freq' is [0,1], expected 0 or 1 for each of 6"));
}

TEST(ConfigNames, intervals_layers_and_dimensions_have_their_names) {
  constexpr const char* kQwen =
      R"("linear_key_head_dim":16,"linear_value_head_dim":16,"linear_num_key_heads":2,
         "linear_num_value_heads":2,"num_experts":4,"num_experts_per_tok":2,
         "moe_intermediate_size":32,"shared_expert_intermediate_size":32)";
  EXPECT_THAT(error_of_model("qwen3_5_moe_text", kQwen, R"("full_attention_interval":7)"),
              StartsWith("config.json: 'full_attention_interval' is 7 in a model of 6 layers"));
  for (const char* n : {"0", "7", "18"}) {
    EXPECT_EQ(
        error_of_model("minimax_m2", R"("head_dim":16)", fmt::format(R"("rotary_dim":{})", n)),
        fmt::format("config.json: 'rotary_dim' is {}, expected an even number up to the 16 "
                    "of a head",
                    n));
  }
}

TEST(ConfigNames, impossible_factors_are_refused) {
  const auto error = [](std::string_view more) {
    return error_of_model("llama", R"("rms_norm_eps":1e-5)", more);
  };
  constexpr const char* kYarn =
      R"("rope_parameters":{{"rope_type":"yarn","factor":4.0,"attention_factor":{}}})";
  EXPECT_EQ(error(fmt::format(kYarn, "1e30")),
            "config.json: 'rope_parameters.attention_factor' is 1E30, expected at most 1000");
  EXPECT_EQ(error(fmt::format(kYarn, "2")), "");
  EXPECT_EQ(error(R"("rope_parameters":NaN)"),
            "config.json: 'rope_parameters' is NaN, expected an object");
}

TEST(ConfigNames, a_scale_of_null_is_the_usual_one) {
  const auto scale = [](std::string_view more) {
    const FolderConfig folder =
        read(config("minimax_m3_vl_text", fmt::format(R"("num_local_experts":8{})", more)));
    return real_of(folder, "minimax-m3.expert_weights_scale");
  };
  EXPECT_EQ(scale(""), 2.0);
  EXPECT_EQ(scale(R"(,"routed_scaling_factor":null)"), 2.0);
  EXPECT_EQ(scale(R"(,"routed_scaling_factor":3)"), 3.0);
}

}  // namespace
}  // namespace kvik::hf
