#include "catalogue/families/gemma.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "catalogue/tensor_roles.h"

namespace kvik {
namespace {

using testing::HasSubstr;

// Ten layers, one in five without a window, the last five read the K and V of others.
class Keys {
 public:
  explicit Keys(std::string architecture = "gemma4") : architecture_(std::move(architecture)) {
    set("block_count", uint64_t{10});
    set("embedding_length", uint64_t{64});
    set("feed_forward_length", std::vector<uint64_t>{96, 96, 96, 96, 96, 192, 192, 192, 192, 192});
    set("attention.head_count", uint64_t{4});
    set("attention.head_count_kv", std::vector<uint64_t>{2, 2, 2, 2, 1, 2, 2, 2, 2, 1});
    set("attention.key_length", uint64_t{32});
    set("attention.key_length_swa", uint64_t{16});
    set("attention.sliding_window", uint64_t{40});
    set("attention.sliding_window_pattern", windowed());
    set("attention.shared_kv_layers", uint64_t{5});
    set("rope.freq_base", 1e6);
    set("embedding_length_per_layer_input", uint64_t{24});
    set("context_length", uint64_t{4096});
    set("vocab_size", uint64_t{300});
  }

  static std::vector<bool> windowed() {
    return {true, true, true, true, false, true, true, true, true, false};
  }
  Keys& set(const std::string& key, Metadata::Value value) {
    values_[architecture_ + "." + key] = std::move(value);
    return *this;
  }
  Result<ModelConfig> read() const {
    Metadata metadata;
    metadata.insert("general.architecture", architecture_);
    for (const auto& [key, value] : values_) metadata.insert(key, value);
    return read_config(metadata);
  }
  std::string error() const {
    const auto config = read();
    return config ? "none" : config.error().message;
  }

 private:
  std::string architecture_;
  std::map<std::string, Metadata::Value> values_;
};

TEST(LayerKinds, layers_with_a_window_have_heads_and_frequencies_of_their_own) {
  const auto config = Keys().read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const AttentionConfig& local = config->layers[0].attention();
  const AttentionConfig& global = config->layers[4].attention();
  EXPECT_EQ(local.window, 40u);
  EXPECT_EQ(local.head_dim, 16u);
  EXPECT_EQ(local.n_kv_heads, 2u);
  EXPECT_FALSE(local.is_v_optional);
  EXPECT_EQ(global.window, 0u);
  EXPECT_EQ(global.head_dim, 32u);
  EXPECT_EQ(global.n_kv_heads, 1u);
  EXPECT_TRUE(global.is_v_optional);
  EXPECT_EQ(config->ropes[local.rope].base, 10000.0f);
  EXPECT_EQ(config->ropes[local.rope].n_dims, 16u);
  EXPECT_FALSE(config->ropes[local.rope].has_divisors);
  EXPECT_EQ(config->ropes[global.rope].base, 1e6f);
  EXPECT_TRUE(config->ropes[global.rope].has_divisors);
  EXPECT_EQ(local.scale, 1.0f);
}

TEST(LayerKinds, last_layers_share_the_kv_of_the_same_attention_span) {
  const auto config = Keys().read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  for (uint32_t i = 0; i < 5; ++i) EXPECT_FALSE(config->layers[i].attention().shared_kv);
  for (uint32_t i = 5; i < 9; ++i) EXPECT_EQ(config->layers[i].attention().shared_kv, 3u);
  EXPECT_EQ(config->layers[9].attention().shared_kv, 4u);
  EXPECT_EQ(std::get<MlpConfig>(config->layers[0].feed_forward).ffn_dim, 96u);
  EXPECT_EQ(std::get<MlpConfig>(config->layers[9].feed_forward).ffn_dim, 192u);
}

TEST(LayerKinds, gemma_3n_states_its_streams) {
  std::vector<double> cutoffs(10, -HUGE_VAL);
  cutoffs[0] = 1.5;
  const auto keys = [&] { return Keys("gemma3n").set("activation_sparsity_scale", cutoffs); };
  const auto usual = keys().read();
  ASSERT_TRUE(usual.has_value()) << usual.error().message;
  EXPECT_EQ(usual->streams->n, 4u);
  EXPECT_EQ(usual->streams->laurel_rank, 64u);
  EXPECT_EQ(usual->logit_soft_cap, 30.0f);
  EXPECT_EQ(std::get<MlpConfig>(usual->layers[0].feed_forward).activation.cutoff, 1.5f);
  EXPECT_TRUE(std::isinf(std::get<MlpConfig>(usual->layers[2].feed_forward).activation.cutoff));
  const auto error_of = [&](const std::string& key, Metadata::Value value) {
    return keys().set(key, std::move(value)).error();
  };
  EXPECT_THAT(error_of("altup.num_inputs", uint64_t{1}), HasSubstr("is 1, expected 2 to 8"));
  EXPECT_THAT(error_of("altup.num_inputs", uint64_t{9}), HasSubstr("is 9, expected 1 to 8"));
  EXPECT_THAT(error_of("altup.active_idx", uint64_t{1}), HasSubstr("is 1, expected 0"));
  EXPECT_THAT(error_of("embedding_length_per_layer_input", uint64_t{0}),
              HasSubstr("is 0, expected a number > 0"));
  EXPECT_THAT(error_of("activation_sparsity_scale", std::vector<double>(5)),
              HasSubstr("has 5 entries, expected 10"));
  EXPECT_THAT(error_of("activation_sparsity_scale", std::vector<double>(10, HUGE_VAL)),
              HasSubstr("holds inf, expected a finite number"));
  EXPECT_THAT(error_of("activation_sparsity_scale", std::vector<double>(10, -1e38)),
              HasSubstr("holds -1e+38, expected numbers from -100 to 100 or -inf"));
}

TEST(LayerKinds, what_a_reading_layer_has_of_its_own_k_and_v_is_left_alone) {
  const auto config = Keys().read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  const TensorTable table(*config);
  EXPECT_NE(table.find({TensorRole::kK, 4}), nullptr);
  EXPECT_EQ(table.find({TensorRole::kK, 5}), nullptr);
  EXPECT_NE(table.find({TensorRole::kQ, 5}), nullptr);
  EXPECT_TRUE(table.may_be_unused("blk.5.attn_k.weight"));
  EXPECT_TRUE(table.may_be_unused("blk.9.attn_k_norm.weight"));
  EXPECT_FALSE(table.may_be_unused("blk.4.attn_k.weight"));
  EXPECT_FALSE(table.may_be_unused("blk.5.attn_q.weight"));
}

TEST(LayerKinds, one_number_stands_for_all_layers) {
  const auto config = Keys()
                          .set("attention.head_count_kv", uint64_t{2})
                          .set("feed_forward_length", uint64_t{80})
                          .read();
  ASSERT_TRUE(config.has_value()) << config.error().message;
  for (const LayerConfig& layer : config->layers) {
    EXPECT_EQ(layer.attention().n_kv_heads, 2u);
    EXPECT_EQ(std::get<MlpConfig>(layer.feed_forward).ffn_dim, 80u);
  }
}

TEST(LayerKinds, lists_of_another_length_are_refused_by_name) {
  EXPECT_THAT(Keys().set("attention.head_count_kv", std::vector<uint64_t>{2, 2}).error(),
              HasSubstr("'gemma4.attention.head_count_kv' has 2 entries, expected 10"));
  EXPECT_THAT(Keys().set("feed_forward_length", std::vector<uint64_t>(11, 96)).error(),
              HasSubstr("'gemma4.feed_forward_length' has 11 entries, expected 10"));
  EXPECT_THAT(Keys().set("attention.sliding_window_pattern", std::vector<bool>(3)).error(),
              HasSubstr("'gemma4.attention.sliding_window_pattern' has 3 entries, expected 10"));
  EXPECT_THAT(Keys().set("attention.head_count_kv", std::vector<uint64_t>(10, 0)).error(),
              HasSubstr("'gemma4.attention.head_count_kv' is 0 in layer 0, expected 1 to"));
}

TEST(LayerKinds, a_layer_that_none_can_lend_k_and_v_is_refused) {
  EXPECT_THAT(Keys().set("attention.shared_kv_layers", uint64_t{10}).error(),
              HasSubstr("'gemma4.attention.shared_kv_layers' is 10, expected 0 to 9"));
  // The four that are left all have a window.
  EXPECT_THAT(
      Keys().set("attention.shared_kv_layers", uint64_t{6}).error(),
      HasSubstr(
          "'gemma4.attention.shared_kv_layers' is 6: no earlier layer has K and V for layer 4"));
  // Another number of KV heads than the lender's.
  EXPECT_THAT(
      Keys()
          .set("attention.head_count_kv", std::vector<uint64_t>{2, 2, 2, 2, 1, 1, 2, 2, 2, 1})
          .error(),
      HasSubstr("expected one with the same window and 1 KV heads"));
}

TEST(LayerKinds, widths_that_cannot_be_are_refused_by_name) {
  EXPECT_THAT(Keys().set("attention.value_length_swa", uint64_t{8}).error(),
              HasSubstr("'gemma4.attention.value_length_swa' is 8, expected the key length 16"));
  EXPECT_THAT(Keys().set("rope.dimension_count_swa", uint64_t{7}).error(),
              HasSubstr("'gemma4.rope.dimension_count_swa' is 7, expected an even number"));
  EXPECT_THAT(Keys().set("rope.freq_base_swa", 0.0).error(),
              HasSubstr("'gemma4.rope.freq_base_swa' is 0, expected a number > 0"));
  EXPECT_THAT(
      Keys().set("attention.head_count_kv", std::vector<uint64_t>(10, 3)).error(),
      HasSubstr("'gemma4.attention.head_count_kv' is 3, expected a divisor of the 4 heads"));
}

TEST(LayerKinds, more_kinds_than_pages_are_made_for_are_refused) {
  std::vector<uint64_t> n_heads;
  for (uint64_t i = 0; i < 10; ++i) n_heads.push_back(uint64_t{1} << i);
  EXPECT_THAT(Keys()
                  .set("attention.head_count", uint64_t{1024})
                  .set("attention.head_count_kv", n_heads)
                  .set("attention.shared_kv_layers", uint64_t{0})
                  .error(),
              HasSubstr("makes layers of 10 kinds, expected at most 8"));
}

}  // namespace
}  // namespace kvik
