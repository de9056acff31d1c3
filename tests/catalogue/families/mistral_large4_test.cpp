#include <gmock/gmock.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "catalogue/config_keys.h"
#include "catalogue/kv_source.h"
#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum TensorRole;

// Twelve layers; every third one has no RoPE.
Keys large4_keys() {
  Keys keys("mistral-large4");
  keys.set("attention.kv_lora_rank", uint64_t{32}).set("rope.dimension_count", uint64_t{8});
  keys.set("attention.key_length", uint64_t{40}).set("attention.value_length", uint64_t{32});
  keys.set("attention.key_length_mla", uint64_t{24});
  keys.set("attention.value_length_mla", uint64_t{12});
  keys.set("attention.indexer.head_count", uint64_t{4});
  keys.set("attention.indexer.key_length", uint64_t{16});
  keys.set("attention.indexer.top_k", uint64_t{64});
  std::vector<bool> rotated;
  for (uint32_t i = 1; i <= 12; ++i) rotated.push_back(i % 3 != 0);
  return keys.set("rope.layers", rotated);
}

std::vector<uint64_t> sources(uint64_t of_layer_3, uint64_t of_layer_5) {
  return {0, 1, 2, of_layer_3, 4, of_layer_5, 6, 7, 8, 9, 10, 11};
}

TEST(MistralLarge4, layers_without_rope_have_only_the_latent_vector_as_k) {
  const ModelConfig c = read(large4_keys());
  const TensorTable table(c);
  const AttentionConfig& rotated = c.layers[1].attention();
  EXPECT_TRUE(rotated.has_rope);
  EXPECT_EQ(rotated.head_dim, 40u);
  EXPECT_EQ(rotated.latent.qk_nope_head_dim, 16u);
  const AttentionConfig& other = c.layers[2].attention();
  EXPECT_FALSE(other.has_rope);
  EXPECT_EQ(other.head_dim, 32u);
  EXPECT_EQ(other.latent.qk_nope_head_dim, 24u);
  EXPECT_EQ(other.latent.qk_rope_head_dim, 0u);
  EXPECT_EQ(other.scale, rotated.scale);
  EXPECT_THAT(table.find({kKvDown, 1})->shape, ElementsAre(40, 96));
  EXPECT_THAT(table.find({kKvDown, 2})->shape, ElementsAre(32, 96));
  EXPECT_THAT(table.find({kKUp, 2})->shape, ElementsAre(6, 32, 24));
  EXPECT_FALSE(table.find({kRopeDivisors})->is_optional);
  EXPECT_THAT(error_of(large4_keys().set("rope.layers", std::vector<bool>{true})).message,
              HasSubstr("'mistral-large4.rope.layers' has 1 entry, expected 12"));
}

TEST(MistralLarge4, an_indexer_reads_the_hidden_state_and_scales_its_queries) {
  const ModelConfig c = read(large4_keys());
  const TensorTable table(c);
  EXPECT_TRUE(c.attention().has_ssmax);
  EXPECT_TRUE(c.attention().indexer.has_input_norm);
  EXPECT_THAT(table.find({kIndexQuery, 0})->shape, ElementsAre(64, 96));
  EXPECT_THAT(table.find({kIndexInputNorm, 0})->shape, ElementsAre(96));
  EXPECT_THAT(table.find({kIndexSsmaxScale, 0})->shape, ElementsAre(4));
  EXPECT_THAT(table.find({kSsmaxBias, 0})->shape, ElementsAre(6));
}

TEST(MistralLarge4, layers_may_read_the_latent_k_of_earlier_ones) {
  std::vector<bool> own(12, true);
  own[3] = false;
  const ModelConfig c = read(large4_keys()
                                 .set("attention.kv_source_layers", sources(1, 2))
                                 .set("attention.indexer.types", own));
  const TensorTable table(c);
  EXPECT_EQ(kv_source_of(c.layers[2]), std::nullopt);
  EXPECT_EQ(kv_source_of(c.layers[3]), 1u);
  EXPECT_EQ(kv_source_of(c.layers[5]), 2u);
  EXPECT_EQ(table.find({kKvDown, 3}), nullptr);
  EXPECT_EQ(table.find({kKvDownNorm, 3}), nullptr);
  EXPECT_NE(table.find({kKUp, 3}), nullptr);
  EXPECT_FALSE(writes_cache(c.layers[3]));
  EXPECT_TRUE(writes_cache(c.layers[5]));  // index keys of its own
}

TEST(MistralLarge4, latent_k_is_shared_by_layers_of_one_kind) {
  const auto message = [](std::vector<uint64_t> of) {
    return error_of(large4_keys().set("attention.kv_source_layers", std::move(of))).message;
  };
  EXPECT_THAT(message(sources(2, 5)), HasSubstr("is 2 for layer 3, expected an earlier layer that "
                                                "has latent K of its own, with RoPE"));
  EXPECT_THAT(message(sources(3, 4)), HasSubstr("is 4 for layer 5, expected an earlier layer that "
                                                "has latent K of its own, without RoPE"));
  EXPECT_THAT(message(sources(4, 5)), HasSubstr("is 4 for layer 3"));
  std::vector<uint64_t> chain = sources(1, 5);
  chain[4] = 3;
  EXPECT_THAT(message(chain), HasSubstr("is 3 for layer 4"));
  EXPECT_THAT(message({0, 1}), HasSubstr("has 2 entries, expected 12"));
  EXPECT_THAT(message(sources(12, 5)), HasSubstr("is 12 in layer 3, expected 0 to 11"));
}

}  // namespace
}  // namespace kvik
