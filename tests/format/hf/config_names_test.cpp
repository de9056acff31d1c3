#include "format/hf/names/config_names.h"

#include <gmock/gmock.h>

#include <string>
#include <string_view>

#include "format/hf/mtp_layer.h"
#include "format/hf/small_configs.h"
#include "format/synthetic/synthetic.h"

namespace kvik::hf {
namespace {

using ::testing::StartsWith;

// Returns the error of the model that such a folder of GLM 5 describes.
std::string error_with(std::string_view more) {
  FolderConfig folder = read(
      config("glm_moe_dsa", fmt::format(R"("kv_lora_rank":32,"q_lora_rank":24,"qk_nope_head_dim":16,
                                    "qk_rope_head_dim":8,"v_head_dim":16,"n_routed_experts":8,
                                    "num_experts_per_tok":2,"moe_intermediate_size":32,{})",
                                        more)));
  const auto tensors = make_synthetic("synthetic:test-llama:f32");  // no MTP layer
  const auto model = read_with_mtp_layer(**tensors, *folder.type, folder.metadata);
  return model ? std::string() : model.error().message;
}

TEST(ConfigNames, errors_of_a_folder_name_the_keys_of_its_config) {
  EXPECT_THAT(error_with(R"("index_topk":0)"),
              StartsWith("config.json: 'index_topk' is 0, expected 1 to"));
  EXPECT_THAT(error_with(R"("index_n_heads":"x")"),
              StartsWith("config.json: 'index_n_heads' is a string, expected"));
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
    const auto model = read_with_mtp_layer(**tensors, *folder.type, folder.metadata);
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

}  // namespace
}  // namespace kvik::hf
