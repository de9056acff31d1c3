#include "catalogue/tensor_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/family.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using enum TensorRole;

// A model of that family with two layers.
ModelConfig config_of(std::string_view family,
                      const std::vector<std::pair<const char*, uint64_t>>& more = {}) {
  Metadata metadata;
  const std::string prefix = std::string(family) + ".";
  metadata.insert("general.architecture", std::string(family));
  for (const auto& [key, value] : more) metadata.insert(prefix + key, value);
  for (const auto& [key, value] : {std::pair("block_count", 2),
                                   {"embedding_length", 64},
                                   {"feed_forward_length", 160},
                                   {"attention.head_count", 4},
                                   {"attention.head_count_kv", 2},
                                   {"context_length", 2048},
                                   {"vocab_size", 260}}) {
    metadata.insert(prefix + key, static_cast<uint64_t>(value));
  }
  auto config = read_config(metadata);
  EXPECT_TRUE(config.has_value()) << config.error().message;
  return config ? *std::move(config) : ModelConfig();
}

std::vector<uint64_t> shape_of(const ModelConfig& config, TensorRole role, uint32_t layer = 0) {
  const TensorTable table(config);
  const TensorSpec* spec = table.find({role, layer});
  return spec ? spec->shape : std::vector<uint64_t>();
}

TEST(TensorRoles, a_name_leads_to_its_role_and_back) {
  EXPECT_EQ(name_of(TensorId{kQ, 3}), "blk.3.attn_q.weight");
  EXPECT_EQ(name_of(TensorId{kHead}), "output.weight");
  for (const char* family : {"llama", "qwen2", "qwen3", "gemma3", "phi3", "olmo2"}) {
    const TensorTable table(config_of(family));
    std::set<std::string> names;
    for (const TensorSpec& spec : table.all()) {
      const std::string name = name_of(spec.id);
      EXPECT_EQ(tensor_named(name), spec.id) << name;
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
}

TEST(TensorRoles, other_names_have_no_role) {
  for (const char* name :
       {"", "blk", "blk.", "blk.3", "blk.3.", "blk.x.attn_q.weight", "attn_q.weight",
        "blk.0.output.weight", "blk.0.attn_sinks", "blk.99999999999.attn_q.weight"}) {
    EXPECT_EQ(tensor_named(name), std::nullopt) << name;
  }
}

TEST(TensorRoles, shapes_follow_from_the_config) {
  const ModelConfig llama = config_of("llama");
  EXPECT_THAT(shape_of(llama, kEmbedding), ElementsAre(260, 64));
  EXPECT_THAT(shape_of(llama, kK, 1), ElementsAre(32, 64));
  EXPECT_THAT(shape_of(llama, kDown, 1), ElementsAre(64, 160));
  EXPECT_THAT(shape_of(config_of("gemma2"), kQBias), IsEmpty());
  EXPECT_THAT(shape_of(llama, kK, 2), IsEmpty());
  EXPECT_THAT(shape_of(config_of("qwen2"), kQBias), ElementsAre(64));
  EXPECT_THAT(shape_of(config_of("olmo2"), kQNorm), ElementsAre(64));
  const ModelConfig phi = config_of("phi3");
  EXPECT_THAT(shape_of(phi, kQkv), ElementsAre(128, 64));
  EXPECT_THAT(shape_of(phi, kUp), ElementsAre(320, 64));
  EXPECT_THAT(shape_of(phi, kGate), IsEmpty());
}

TEST(TensorRoles, a_llama_file_may_have_biases) {
  const TensorTable table(config_of("llama"));
  const std::map<TensorRole, uint64_t> sizes = {
      {kQBias, 64},     {kKBias, 32},   {kVBias, 32},   {kAttentionOutputBias, 64},
      {kGateBias, 160}, {kUpBias, 160}, {kDownBias, 64}};
  for (const auto& [role, size] : sizes) {
    const TensorSpec* spec = table.find({role, 1});
    ASSERT_NE(spec, nullptr) << name_of(TensorId{role, 1});
    EXPECT_TRUE(spec->is_optional) << name_of(TensorId{role, 1});
    EXPECT_THAT(spec->shape, ElementsAre(size)) << name_of(TensorId{role, 1});
  }
}

TEST(TensorRoles, experts_may_begin_behind_dense_layers) {
  const ModelConfig c = config_of("qwen3moe", {{"expert_count", 8},
                                               {"expert_used_count", 2},
                                               {"expert_feed_forward_length", 96},
                                               {"leading_dense_block_count", 1}});
  EXPECT_THAT(shape_of(c, kDown, 0), ElementsAre(64, 160));
  EXPECT_THAT(shape_of(c, kExpertDown, 0), IsEmpty());
  EXPECT_THAT(shape_of(c, kExpertDown, 1), ElementsAre(8, 64, 96));
  EXPECT_THAT(shape_of(c, kDown, 1), IsEmpty());
}

TEST(Families, each_type_of_folder_belongs_to_one_and_names_what_it_calls_otherwise) {
  EXPECT_EQ(find_folder_type("mistral").family, find_family("llama"));
  EXPECT_EQ(find_folder_type("rwkv").type, nullptr);
  EXPECT_EQ(folder_name(*find_folder_type("qwen3_moe").type, kRouter), "mlp.gate.weight");
  EXPECT_EQ(folder_name(*find_folder_type("mixtral").type, kRouter),
            "block_sparse_moe.gate.weight");
}

}  // namespace
}  // namespace kvik
