// Keys of Nemotron 3 Puzzle, which states them for each layer.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "format/hf/small_configs.h"

namespace kvik::hf {
namespace {

using ::testing::HasSubstr;

TEST(HfConfig, blocks_of_nemotron_3_puzzle_state_what_differs_between_layers) {
  const auto puzzle = [](std::string_view blocks) {
    std::string text = config(
        "nemotron_h_puzzle",
        fmt::format(R"("mamba_num_heads":4,"mamba_head_dim":16,"n_groups":2,"num_key_value_heads":2,
      "ssm_state_size":16,"hidden_act":null,"mlp_hidden_act":"relu2","block_configs":[{}])",
                    blocks));
    constexpr std::string_view kLayers = R"("num_hidden_layers":6,)";
    return text.erase(text.find(kLayers), kLayers.size());
  };
  constexpr const char* kBlocks = R"({"block_type":"mamba"},
      {"block_type":"moe","n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32},
      {"block_type":"attention","sliding_window":null},
      {"block_type":"moe","n_routed_experts":8,"num_experts_per_tok":3,"moe_intermediate_size":64})";
  const auto model = read_config(read(puzzle(kBlocks)).metadata);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->n_layers, 4u);
  EXPECT_TRUE(model->layers[0].has_state());
  EXPECT_NE(model->layers[2].if_attention(), nullptr);
  ASSERT_NE(model->layers[3].experts(), nullptr);
  EXPECT_EQ(model->layers[1].experts()->n_used, 2u);
  EXPECT_EQ(model->layers[3].experts()->n_used, 3u);
  EXPECT_EQ(model->layers[3].experts()->ffn_dim, 64u);
  std::string other_number = puzzle(kBlocks);
  other_number.insert(1, R"("num_hidden_layers":6,)");
  EXPECT_THAT(error_of(other_number).message,
              HasSubstr("'num_hidden_layers' is 6, expected the 4 of block_configs"));
  const std::string some = fmt::format("{},", kBlocks);
  for (const auto& [blocks, message] : {
           std::pair(std::string(""), "a list of 1 to 1024 objects"),
           std::pair(some + R"({"block_type":"conv"})", "expected mamba, attention, moe or mlp"),
           std::pair(some + R"({"block_type":"attention","sliding_window":8})",
                     "expected a value for each block of the type"),
           std::pair(std::string(R"({"block_type":"mamba"},
                        {"block_type":"attention","sliding_window":8})"),
                     "'sliding_window' is 8, expected null"),
           std::pair(some + R"({"block_type":"mamba","num_experts_per_tok":2})",
                     "a key of blocks of one type"),
           std::pair(some + R"({"block_type":"moe","n_routed_experts":8,"num_experts_per_tok":0,
                                "moe_intermediate_size":64})",
                     "expected an integer from 1 to"),
       }) {
    EXPECT_THAT(error_of(puzzle(blocks)).message, HasSubstr(message)) << blocks;
  }
}

TEST(HfConfig, the_mtp_layer_of_nemotron_3_puzzle_has_blocks_of_its_own) {
  const auto puzzle = [](std::string_view experts, std::string_view mtp_blocks) {
    std::string text = config(
        "nemotron_h_puzzle",
        fmt::format(R"("mamba_num_heads":4,"mamba_head_dim":16,"n_groups":2,"num_key_value_heads":2,
      "ssm_state_size":16,"hidden_act":null,"mlp_hidden_act":"relu2","block_configs":[
      {{"block_type":"mamba"}},{{"block_type":"moe",{0}}},{{"block_type":"attention"}}],
      "mtp_block_configs":{1})",
                    experts, mtp_blocks));
    constexpr std::string_view kLayers = R"("num_hidden_layers":6,)";
    return text.erase(text.find(kLayers), kLayers.size());
  };
  constexpr std::string_view kExperts =
      R"("n_routed_experts":8,"num_experts_per_tok":2,"moe_intermediate_size":32)";
  constexpr std::string_view kOthers =
      R"("n_routed_experts":16,"num_experts_per_tok":5,"moe_intermediate_size":64)";
  const auto pair = [](std::string_view experts) {
    return fmt::format(R"([{{"block_type":"attention","sliding_window":null}},
                           {{"block_type":"moe",{}}}])",
                       experts);
  };
  for (const std::string_view own : {kOthers, kExperts}) {
    const auto model = read_config(read(puzzle(kExperts, pair(own))).metadata);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->n_layers, 3u);
    ASSERT_TRUE(model->has_mtp_head);
    EXPECT_NE(model->layers[3].if_attention(), nullptr);
    ASSERT_NE(model->layers[3].experts(), nullptr);
    EXPECT_EQ(model->layers[3].experts()->n_experts, own == kOthers ? 16u : 8u);
    EXPECT_EQ(model->layers[3].experts()->n_used, own == kOthers ? 5u : 2u);
    EXPECT_EQ(model->layers[3].experts()->ffn_dim, own == kOthers ? 64u : 32u);
    EXPECT_EQ(model->layers[1].experts()->ffn_dim, 32u);
  }
  for (const std::string_view none : {"null", "[]"}) {
    const auto model = read_config(read(puzzle(kExperts, none)).metadata);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_FALSE(model->has_mtp_head);
    EXPECT_EQ(model->n_layers, 3u);
  }
  for (const auto& [blocks, message] : {
           std::pair(std::string("7"), "'mtp_block_configs' is 7, expected a list of 1 to 1024"),
           std::pair(std::string(R"([{"block_type":"attention"}])"),
                     "expected attention and moe, one of each, in a model with experts"),
           std::pair(std::string(R"([{"block_type":"attention","sliding_window":8},
                                     {"block_type":"moe"}])"),
                     "a value for each block of the type"),
           std::pair(pair(R"("n_routed_experts":8,"num_experts_per_tok":2,
                             "moe_intermediate_size":0)"),
                     "expected an integer from 1 to"),
           std::pair(pair(R"("num_experts_per_tok":2)"), "a value for each block of the type"),
       }) {
    EXPECT_THAT(error_of(puzzle(kExperts, blocks)).message, HasSubstr(message)) << blocks;
  }
}

}  // namespace
}  // namespace kvik::hf
