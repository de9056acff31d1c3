#include "model/adapter.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/random_adapter.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

using enum TensorRole;

ModelConfig config_of(const std::string& name) {
  return load_tiny(TinyModelOptions{.name = name}).model->config();
}

TEST(Adapter, k_and_v_do_not_depend_on_later_matrices) {
  const ModelConfig config = config_of("test-llama:f32");
  const uint32_t last = config.n_layers - 1;
  for (const TensorRole role : {kQ, kAttentionOutput, kGate, kUp, kDown}) {
    EXPECT_TRUE(keeps_kv_unchanged({role, last}, config)) << name_of(TensorId{role, last});
    EXPECT_FALSE(keeps_kv_unchanged({role, 0}, config)) << name_of(TensorId{role, 0});
  }
  for (const TensorRole role : {kK, kV, kQkv, kKvDown}) {
    EXPECT_FALSE(keeps_kv_unchanged({role, last}, config)) << name_of(TensorId{role, last});
  }
  EXPECT_TRUE(keeps_kv_unchanged({kHead}, config));
  EXPECT_FALSE(keeps_kv_unchanged({kEmbedding}, config));
}

TEST(Adapter, a_state_does_not_depend_on_later_matrices) {
  const ModelConfig conv = config_of("test-lfm2:f32");
  const uint32_t last = conv.n_layers - 1;
  ASSERT_FALSE(conv.layers[last].if_attention());
  for (const TensorRole role : {kConvOutput, kGate, kUp, kDown}) {
    EXPECT_TRUE(keeps_kv_unchanged({role, last}, conv)) << name_of(TensorId{role, last});
    EXPECT_FALSE(keeps_kv_unchanged({role, 0}, conv)) << name_of(TensorId{role, 0});
  }
  EXPECT_FALSE(keeps_kv_unchanged({kConvIn, last}, conv));

  ModelConfig delta = config_of("test-qwen35:f32");
  while (delta.layers.back().if_attention()) {
    delta.layers.pop_back();
    --delta.n_layers;
  }
  const uint32_t end = delta.n_layers - 1;
  for (const TensorRole role : {kOutputGate, kStateOutput, kUp, kDown}) {
    EXPECT_TRUE(keeps_kv_unchanged({role, end}, delta)) << name_of(TensorId{role, end});
  }
  for (const TensorRole role : {kQkv, kStateBeta, kStateAlpha, kStateGates, kSpaceIn}) {
    EXPECT_FALSE(keeps_kv_unchanged({role, end}, delta)) << name_of(TensorId{role, end});
  }

  const ModelConfig kda = config_of("test-kimilinear:f32");
  const uint32_t newest = kda.n_layers - 1;
  ASSERT_FALSE(kda.layers[newest].if_attention());
  EXPECT_TRUE(keeps_kv_unchanged({kAttentionOutput, newest}, kda));
  for (const TensorRole role : {kQ, kK, kV, kDecayDown, kStateBeta}) {
    EXPECT_FALSE(keeps_kv_unchanged({role, newest}, kda)) << name_of(TensorId{role, newest});
  }
}

TEST(Adapter, has_a_mark_of_its_own_unless_it_leaves_k_and_v_alone) {
  const TinyModel tiny = load_tiny();
  const auto load = [&](uint32_t seed, const RandomAdapter::Wanted& wanted) {
    return load_random(RandomAdapter(tiny.model->config(), seed, 3, wanted), *tiny.model,
                       *tiny.backend);
  };
  const auto any = [](TensorId) { return true; };
  const auto head = [](TensorId id) { return id.role == kHead; };
  EXPECT_EQ(load(1, any)->cache_key_suffix(), load(1, any)->cache_key_suffix());
  EXPECT_EQ(load(1, any)->cache_key_suffix().size(), 64u);
  EXPECT_NE(load(1, any)->cache_key_suffix(), load(2, any)->cache_key_suffix());
  EXPECT_EQ(load(1, head)->cache_key_suffix(), "");
  EXPECT_NE(load(1, head)->digest(), load(2, head)->digest());
}

TEST(Adapter, another_scale_is_another_adapter) {
  const TinyModel tiny = load_tiny();
  RandomAdapter one(tiny.model->config(), 1);
  RandomAdapter other = one;
  other.mutable_pairs().front().scale *= 2;
  EXPECT_NE(load_random(one, *tiny.model, *tiny.backend)->digest(),
            load_random(other, *tiny.model, *tiny.backend)->digest());
}

TEST(Adapter, says_its_bytes_before_it_is_loaded) {
  for (const char* name : {"test-llama:f32", "test-qwen2moe:q8_0", "test-mla:f32",
                           "test-qwen35:f32", "test-qwen3next:q8_0"}) {
    const TinyModel tiny = load_tiny(TinyModelOptions{.name = name});
    RandomAdapter source(tiny.model->config(), 1);
    const uint64_t expected = Adapter::bytes_of(source, tiny.model->config(), *tiny.backend);
    EXPECT_EQ(load_random(std::move(source), *tiny.model, *tiny.backend)->bytes(), expected);
  }
}

// An adapter can change every matrix of a model, including those added later.
TEST(Model, every_matrix_has_a_site) {
  for (const char* name :
       {"test-llama:f32", "test-phi3:f32", "test-gptoss:f32", "test-mla:f32",
        "test-dense-first:f32", "test-gemma3:f32", "test-qwen35:f32", "test-qwen3next:f32",
        "test-lfm2moe:f32", "test-granitehybrid:f32", "test-nemotronh:f32", "test-nemotronhmoe:f32",
        "test-qwen4exp:f32", "test-deepseek4:f32", "test-glm5next:f32"}) {
    const TinyModel tiny = load_tiny(TinyModelOptions{.name = name});
    const TensorTable table(tiny.model->config());
    for (const TensorSpec& spec : table.all()) {
      const TensorKind kind = kind_of(spec.id.role);
      if (is_list(kind)) continue;
      const auto site = tiny.model->sites().find(spec.id);
      ASSERT_NE(site, tiny.model->sites().end()) << name << " " << name_of(spec.id);
      EXPECT_EQ(site->second.matrix->n_cols(), spec.shape.back()) << name_of(spec.id);
    }
  }
}

}  // namespace
}  // namespace kvik
