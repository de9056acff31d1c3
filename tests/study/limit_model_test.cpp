#include "study/bench/limit_model.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "catalogue/kv_source.h"
#include "catalogue/tensor_roles.h"
#include "format/source_config.h"
#include "format/synthetic/synthetic.h"
#include "support/tiny_model.h"

namespace kvik {
namespace {

// A model with f32 weights and pages: all operations are f32.
struct Limits {
  explicit Limits(const std::string& name)
      : source(*make_synthetic("synthetic:" + name + ":f32")),
        config(*config_of(*source)),
        model(*source, config, KvFootprint(config, *backend, KvType::kF32)) {}

  double ops(BenchCase::Kind kind, uint32_t n_tokens, uint32_t batch = 1) const {
    return model.work({.kind = kind, .n_tokens = n_tokens, .batch = batch}).f32_ops;
  }
  // Returns the operations of one token with these matrices, or with all others but the embedding.
  double matrix_ops(const std::set<std::string>& names, bool is_in) const {
    double ops = 0;
    for (const TensorInfo& tensor : source->tensors()) {
      if (tensor.shape.size() < 2 || tensor.name == "token_embd.weight") continue;
      if (names.contains(tensor.name) == is_in)
        ops += 2.0 * static_cast<double>(tensor.n_elements());
    }
    return ops;
  }

  std::unique_ptr<Backend> backend = make_test_backend();
  std::unique_ptr<ModelSource> source;
  ModelConfig config;
  LimitModel model;
};

using enum BenchCase::Kind;

TEST(LimitModel, the_last_layer_computes_the_last_token_of_a_prompt_only) {
  const Limits limits("test-llama");
  const uint32_t last = limits.config.n_layers - 1;
  const std::string prefix = "blk." + std::to_string(last) + ".";
  const std::set<std::string> once = {"output.weight",
                                      prefix + "attn_q.weight",
                                      prefix + "attn_output.weight",
                                      prefix + "ffn_gate.weight",
                                      prefix + "ffn_up.weight",
                                      prefix + "ffn_down.weight"};
  // Attention multiplies by K and by V, for each token up to the own one (here: on average).
  const AttentionConfig& a = limits.config.layers[0].attention();
  const double of_a_token = 4.0 * a.n_heads * a.head_dim;
  const double n = 40;
  const double of_attention = last * n * of_a_token * n / 2 + of_a_token * (n - 0.5);
  EXPECT_EQ(limits.ops(kPrefill, 40),
            n * limits.matrix_ops(once, false) + limits.matrix_ops(once, true) + of_attention);
  EXPECT_EQ(limits.ops(kPrefill, 40, 3), 3 * limits.ops(kPrefill, 40));
}

TEST(LimitModel, each_token_of_an_answer_is_computed_as_a_whole) {
  const Limits limits("test-llama");
  const AttentionConfig& a = limits.config.layers[0].attention();
  EXPECT_EQ(limits.ops(kDecode, 1), limits.matrix_ops({}, false) +
                                        4.0 * a.n_heads * a.head_dim * limits.config.n_layers / 2);
}

TEST(LimitModel, layers_that_share_k_and_v_compute_the_last_token_of_a_prompt_only) {
  const Limits limits("test-gemma4-e");
  const auto shares = [&](uint32_t layer) {
    return kv_source_of(limits.config.layers[layer]).has_value();
  };
  uint32_t last_writer = 0;
  for (uint32_t i = 0; i < limits.config.n_layers; ++i) {
    if (!shares(i)) last_writer = i;
  }
  ASSERT_LT(last_writer + 1, limits.config.n_layers);
  const std::string prefix = "blk." + std::to_string(last_writer) + ".";
  const std::set<std::string> of_cache = {prefix + "attn_k.weight", prefix + "attn_v.weight"};
  std::set<std::string> once;
  for (const TensorInfo& tensor : limits.source->tensors()) {
    const auto id = tensor_named(tensor.name);
    if (!id || !is_of_layer(id->role) || of_cache.contains(tensor.name)) continue;
    if (id->layer >= last_writer) once.insert(tensor.name);
  }
  const double n = 500;
  double of_attention = 0;
  for (uint32_t i = 0; i < limits.config.n_layers; ++i) {
    const AttentionConfig& a = limits.config.layers[i].attention();
    // On average, tokens see half of those that fill a window or the prompt, then a whole window.
    const double full = a.window > 0 ? a.window : n;
    const double of_all = full * full / 2 + (n - full) * full;
    const double seen = a.window > 0 ? full : n - 0.5;  // by the last token
    of_attention += 4.0 * a.n_heads * a.head_dim * (i >= last_writer ? seen : of_all);
  }
  // The embedding is the head, and the table of per-layer embeddings is read, not multiplied.
  const double of_head = 2.0 * limits.config.n_vocab * limits.config.model_dim;
  once.insert("per_layer_token_embd.weight");
  const double of_table = limits.matrix_ops({"per_layer_token_embd.weight"}, true);
  const double expected = n * limits.matrix_ops(once, false) + limits.matrix_ops(once, true) -
                          of_table + of_head + of_attention;
  EXPECT_NEAR(limits.ops(kPrefill, 500), expected, 1e-9 * expected);
}

}  // namespace
}  // namespace kvik
