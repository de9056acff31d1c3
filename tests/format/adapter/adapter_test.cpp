#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "format/adapter/gguf_adapter.h"
#include "format/adapter/merged_tensors.h"
#include "format/adapter/peft_adapter.h"
#include "format/gguf/gguf.h"
#include "format/opened_adapter.h"
#include "format/safetensors.h"
#include "support/adapter_files.h"
#include "support/memory_source.h"
#include "support/temporary_folder.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Opened open_file(const GgufWriter& file, const std::string& preset = "test-llama:f32",
                 float factor = 1.0f) {
  Opened opened{file.bytes(), fail(ErrorCode::kIo, "")};
  auto tensors = open_gguf_bytes("adapter.gguf", opened.bytes);
  EXPECT_TRUE(tensors.has_value()) << (tensors ? "" : tensors.error().message);
  opened.source = read_gguf_adapter(std::move(*tensors), config_of(preset), factor);
  return opened;
}

std::string refusal(const Opened& opened) {
  EXPECT_FALSE(opened.source.has_value());
  return opened.source ? "" : opened.source.error().message;
}

constexpr const char* kDown = "blk.1.ffn_down.weight";
constexpr const char* kDownModule = "model.layers.1.mlp.down_proj";

TEST(Adapter, a_file_of_llama_cpp_gives_its_pairs) {
  auto opened = open_file(gguf_adapter(kDown, 64, 160, 4), "test-llama:f32", 3.0f);
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  AdapterSource& source = **opened.source;
  ASSERT_EQ(source.pairs().size(), 1u);
  const AdapterPair& pair = source.pairs()[0];
  EXPECT_EQ(pair.tensor, (TensorId{TensorRole::kDown, 1}));
  EXPECT_EQ(pair.n_rows, 64u);
  EXPECT_EQ(pair.n_cols, 160u);
  EXPECT_EQ(pair.rank, 4u);
  EXPECT_FLOAT_EQ(pair.scale, 3.0f * 8 / 4);
  const auto factors = source.read(0);
  ASSERT_TRUE(factors.has_value());
  EXPECT_EQ(factors->a, counted(4 * 160, 1));
  EXPECT_EQ(factors->b, counted(64 * 4, -1));
}

TEST(Adapter, an_alpha_of_0_scales_by_1) {
  auto opened = open_file(gguf_adapter(kDown, 64, 160, 4, 0));
  ASSERT_TRUE(opened.source.has_value());
  EXPECT_EQ((*opened.source)->pairs()[0].scale, 1.0f);
}

TEST(Adapter, a_folder_of_peft_gives_the_same_pairs) {
  auto opened = open_peft(peft_config(4), peft_tensors(kDownModule, 64, 160, 4));
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  AdapterSource& source = **opened.source;
  ASSERT_EQ(source.pairs().size(), 1u);
  EXPECT_EQ(source.pairs()[0].tensor, (TensorId{TensorRole::kDown, 1}));
  EXPECT_FLOAT_EQ(source.pairs()[0].scale, 2.0f);
  EXPECT_EQ(source.base_name(), "tiny");
  EXPECT_EQ(source.read(0)->a, counted(4 * 160, 1));
}

// In Llama's GGUF files, the rows of a head that RoPE rotates together are adjacent.
TEST(Adapter, rows_of_heads_with_rope_are_paired_as_in_the_model) {
  auto opened =
      open_peft(peft_config(1), peft_tensors("model.layers.0.self_attn.k_proj", 32, 64, 1));
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  const auto factors = (*opened.source)->read(0);
  ASSERT_TRUE(factors.has_value());
  const auto in_file = counted(32, -1);
  for (size_t head = 0; head < 2; ++head) {
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(factors->b[16 * head + 2 * i], in_file[16 * head + i]);
      EXPECT_EQ(factors->b[16 * head + 2 * i + 1], in_file[16 * head + 8 + i]);
    }
  }
  auto halves = open_peft(
      peft_config(1), peft_tensors("model.layers.0.self_attn.k_proj", 32, 64, 1), "test-qwen2:f32");
  EXPECT_EQ((*halves.source)->read(0)->b, in_file);
}

// Returns the factors of the tensors changed by a PEFT module with a pair of rank 1.
std::map<TensorId, LowRankFactors> factors_of(const std::string& preset, const std::string& module,
                                              uint64_t n, uint64_t k) {
  auto opened = open_peft(peft_config(1), peft_tensors(module, n, k, 1), preset);
  EXPECT_TRUE(opened.source.has_value()) << refusal(opened);
  std::map<TensorId, LowRankFactors> found;
  for (size_t i = 0; opened.source && i < (*opened.source)->pairs().size(); ++i) {
    found[(*opened.source)->pairs()[i].tensor] = *(*opened.source)->read(i);
  }
  return found;
}

std::vector<float> slice(const std::vector<float>& all, size_t first, size_t n) {
  const auto begin = all.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(n)};
}

// In Qwen 3.5's GGUF files, value heads of the same key head are separated by the number of key
// heads; in folders they are adjacent.
TEST(Adapter, value_heads_are_in_the_order_of_the_model) {
  constexpr size_t kOrder[] = {0, 2, 1, 3};
  const std::string layer = "model.language_model.layers.1.linear_attn.";
  const auto gate = factors_of("test-qwen35:f32", layer + "in_proj_z", 192, 64);
  const auto qkv = factors_of("test-qwen35:f32", layer + "in_proj_qkv", 384, 64);
  const auto beta = factors_of("test-qwen35:f32", layer + "in_proj_b", 4, 64);
  const auto output = factors_of("test-qwen35:f32", layer + "out_proj", 64, 192);
  const auto& b_of_qkv = qkv.at({TensorRole::kQkv, 1}).b;
  EXPECT_EQ(slice(b_of_qkv, 0, 192), counted(192, -1));
  for (size_t i = 0; i < 4; ++i) {
    const size_t from = kOrder[i];
    EXPECT_EQ(slice(gate.at({TensorRole::kOutputGate, 1}).b, 48 * i, 48),
              slice(counted(192, -1), 48 * from, 48));
    EXPECT_EQ(slice(b_of_qkv, 192 + 48 * i, 48), slice(counted(384, -1), 192 + 48 * from, 48));
    EXPECT_EQ(beta.at({TensorRole::kStateBeta, 1}).b[i], counted(4, -1)[from]);
    EXPECT_EQ(slice(output.at({TensorRole::kStateOutput, 1}).a, 48 * i, 48),
              slice(counted(192, 1), 48 * from, 48));
  }
  EXPECT_EQ(output.at({TensorRole::kStateOutput, 1}).b, counted(64, -1));
}

TEST(Adapter, a_module_of_several_tensors_changes_each_of_them) {
  const auto qkvz =
      factors_of("test-qwen3next:f32", "model.layers.0.linear_attn.in_proj_qkvz", 192, 64);
  ASSERT_EQ(qkvz.size(), 2u);
  const auto all = counted(192, -1);
  for (const auto& [tensor, factors] : qkvz) EXPECT_EQ(factors.a, counted(64, 1));
  for (size_t head = 0; head < 2; ++head) {  // for each head: q, k, v, gate
    const auto& qkv = qkvz.at({TensorRole::kQkv, 0}).b;
    EXPECT_EQ(slice(qkv, 16 * head, 16), slice(all, 96 * head, 16));
    EXPECT_EQ(slice(qkv, 32 + 16 * head, 16), slice(all, 96 * head + 16, 16));
    EXPECT_EQ(slice(qkv, 64 + 32 * head, 32), slice(all, 96 * head + 32, 32));
    EXPECT_EQ(slice(qkvz.at({TensorRole::kOutputGate, 0}).b, 32 * head, 32),
              slice(all, 96 * head + 64, 32));
  }
  const auto shared =
      factors_of("test-granitehybrid:f32", "model.layers.0.shared_mlp.input_linear", 192, 64);
  ASSERT_EQ(shared.size(), 2u);
  EXPECT_EQ(shared.at({TensorRole::kSharedGate, 0}).b, slice(all, 0, 96));
  EXPECT_EQ(shared.at({TensorRole::kSharedUp, 0}).b, slice(all, 96, 96));
}

// The rows of a module are all rows of its tensors.
TEST(Adapter, a_part_of_a_module_is_refused) {
  EXPECT_THAT(refusal(open_peft(peft_config(1),
                                peft_tensors("model.layers.0.linear_attn.in_proj_qkvz", 128, 64, 1),
                                "test-qwen3next:f32")),
              HasSubstr("[192, 1]"));
}

TEST(Adapter, modules_of_families_whose_folders_are_not_read) {
  using enum TensorRole;
  EXPECT_TRUE(
      factors_of("test-lfm2:f32", "model.layers.0.conv.in_proj", 192, 64).contains({kConvIn, 0}));
  EXPECT_TRUE(factors_of("test-lfm2:f32", "model.layers.1.self_attn.out_proj", 64, 64)
                  .contains({kAttentionOutput, 1}));
  EXPECT_TRUE(factors_of("test-lfm2moe:f32", "model.layers.1.feed_forward.experts.5.w2", 64, 96)
                  .contains({kExpertDown, 1}));
  EXPECT_TRUE(factors_of("test-granitehybrid:f32", "model.layers.0.mamba.out_proj", 64, 128)
                  .contains({kStateOutput, 0}));
}

// The same parts of the model itself are ignored as well.
TEST(Adapter, pairs_of_vision_parts_are_ignored) {
  auto file = peft_tensors("model.visual.blocks.0.attn.qkv", 96, 32, 4);
  EXPECT_THAT(refusal(open_peft(peft_config(4), file, "test-qwen35:f32")), HasSubstr("no pair"));
  file.floats("base_model.model.lm_head.lora_A.weight", {4, 64}, counted(256, 1));
  file.floats("base_model.model.lm_head.lora_B.weight", {260, 4}, counted(1040, 1));
  const auto opened = open_peft(peft_config(4), file, "test-qwen35:f32");
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  EXPECT_EQ((*opened.source)->pairs().size(), 1u);
}

TEST(Adapter, a_convolutions_taps_are_no_matrix) {
  for (const auto& [preset, module] :
       {std::pair("test-qwen35:f32", "model.layers.0.linear_attn.conv1d"),
        {"test-lfm2:f32", "model.layers.0.conv.conv"},
        {"test-granitehybrid:f32", "model.layers.0.mamba.conv1d"}}) {
    EXPECT_THAT(refusal(open_peft(peft_config(4), peft_tensors(module, 64, 4, 4), preset)),
                AllOf(HasSubstr(module), HasSubstr("is not a matrix")));
  }
}

TEST(Adapter, ranks_and_alphas_may_differ_by_module) {
  const std::string config =
      peft_config(4, R"(, "rank_pattern": {"layers.1.mlp.down_proj": 3, "down_proj": 2},
            "alpha_pattern": {"mlp.down_proj": 12})");
  auto opened = open_peft(config, peft_tensors(kDownModule, 64, 160, 3));
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  EXPECT_FLOAT_EQ((*opened.source)->pairs()[0].scale, 4.0f);
  auto other = open_peft(config, peft_tensors("model.layers.0.mlp.up_proj", 160, 64, 4));
  EXPECT_FLOAT_EQ((*other.source)->pairs()[0].scale, 2.0f);
}

TEST(Adapter, rslora_scales_by_the_root_of_the_rank) {
  auto opened =
      open_peft(peft_config(4, R"(, "use_rslora": true)"), peft_tensors(kDownModule, 64, 160, 4));
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  EXPECT_FLOAT_EQ((*opened.source)->pairs()[0].scale, 4.0f);
}

TEST(Adapter, experts_are_parts_of_their_stack) {
  auto opened = open_peft(peft_config(2),
                          peft_tensors("model.layers.0.block_sparse_moe.experts.3.w2", 64, 160, 2),
                          "test-mixtral:f32");
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  EXPECT_EQ((*opened.source)->pairs()[0].tensor, (TensorId{TensorRole::kExpertDown, 0}));
  EXPECT_EQ((*opened.source)->pairs()[0].part, 3u);
}

TEST(Adapter, a_stack_of_a_gguf_file_has_a_pair_for_each_expert) {
  GgufWriter file;
  file.key("general.type", "adapter");
  file.key("general.architecture", "llama");
  file.key("adapter.type", "lora");
  file.tensor("blk.0.ffn_down_exps.weight.lora_a", {4, 2, 160}, counted(4 * 2 * 160, 1));
  file.tensor("blk.0.ffn_down_exps.weight.lora_b", {4, 64, 2}, counted(4 * 64 * 2, -1));
  auto opened = open_file(file, "test-mixtral:f32");
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  ASSERT_EQ((*opened.source)->pairs().size(), 4u);
  const auto factors = (*opened.source)->read(2);
  EXPECT_EQ((*opened.source)->pairs()[2].part, 2u);
  EXPECT_EQ(factors->a.front(), counted(4 * 2 * 160, 1)[2 * 2 * 160]);
  EXPECT_EQ(factors->b.front(), counted(4 * 64 * 2, -1)[2 * 64 * 2]);
}

TEST(Adapter, an_embedding_is_called_as_the_family_does) {
  const auto config = config_of("test-nemotronh:f32");
  for (const char* module : {"backbone.embeddings", "model.embed_tokens"}) {
    SafetensorsWriter file;
    const std::string name = std::string("base_model.model.") + module;
    file.floats(name + ".lora_embedding_A", {2, config.n_vocab}, counted(2 * config.n_vocab, 1));
    file.floats(name + ".lora_embedding_B", {config.model_dim, 2},
                counted(2 * config.model_dim, -1));
    const auto opened = open_peft(peft_config(2), file, "test-nemotronh:f32");
    ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
    EXPECT_EQ((*opened.source)->pairs()[0].tensor.role, TensorRole::kEmbedding) << module;
  }
}

// PEFT saves them by default if embed_tokens or lm_head are among the target modules.
TEST(Adapter, copies_of_base_weights_are_ignored) {
  SafetensorsWriter peft;
  for (const char* module : {"model.embed_tokens", "lm_head"}) {
    const std::string name = std::string("base_model.model.") + module;
    peft.floats(name + ".base_layer.weight", {260, 64}, counted(260 * 64, 1));
  }
  peft.floats("base_model.model.model.embed_tokens.lora_embedding_A", {2, 260}, counted(520, 1));
  peft.floats("base_model.model.model.embed_tokens.lora_embedding_B", {64, 2}, counted(128, -1));
  peft.floats("base_model.model.lm_head.lora_A.weight", {2, 64}, counted(128, 1));
  peft.floats("base_model.model.lm_head.lora_B.weight", {260, 2}, counted(520, 1));
  const auto opened = open_peft(peft_config(2), peft);
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  EXPECT_EQ((*opened.source)->pairs().size(), 2u);
}

TEST(Adapter, a_copy_of_a_base_with_another_vocabulary_is_refused) {
  auto file = peft_tensors(kDownModule, 64, 160, 4);
  file.floats("base_model.model.model.embed_tokens.base_layer.weight", {261, 64},
              counted(261 * 64, 1));
  EXPECT_THAT(refusal(open_peft(peft_config(4), file)),
              AllOf(HasSubstr("embed_tokens.base_layer"), HasSubstr("another vocabulary")));
}

TEST(Adapter, a_copy_of_another_module_is_refused) {
  auto file = peft_tensors(kDownModule, 64, 160, 4);
  file.floats("base_model.model.model.layers.1.mlp.up_proj.base_layer.weight", {160, 64},
              counted(160 * 64, 1));
  EXPECT_THAT(refusal(open_peft(peft_config(4), file)), HasSubstr("up_proj.base_layer"));
}

TEST(Adapter, an_embedding_is_the_same_in_both_kinds_of_files) {
  constexpr uint64_t kVocab = 260;
  SafetensorsWriter peft;
  peft.floats("base_model.model.model.embed_tokens.lora_embedding_A", {2, kVocab},
              counted(2 * kVocab, 1));
  peft.floats("base_model.model.model.embed_tokens.lora_embedding_B", {64, 2}, counted(128, -1));
  auto one = open_peft(peft_config(2), peft);
  ASSERT_TRUE(one.source.has_value()) << refusal(one);
  GgufWriter gguf;
  gguf.key("general.type", "adapter");
  gguf.key("general.architecture", "llama");
  gguf.key("adapter.type", "lora");
  gguf.key("adapter.lora.alpha", 8.0f);
  std::vector<float> of_tokens(2 * kVocab);
  for (size_t t = 0; t < kVocab; ++t) {
    for (size_t r = 0; r < 2; ++r) of_tokens[2 * t + r] = counted(2 * kVocab, 1)[r * kVocab + t];
  }
  gguf.tensor("token_embd.weight.lora_a", {kVocab, 2}, of_tokens);
  gguf.tensor("token_embd.weight.lora_b", {64, 2}, counted(128, -1));
  auto other = open_file(gguf);
  ASSERT_TRUE(other.source.has_value()) << refusal(other);
  EXPECT_EQ((*one.source)->read(0)->a, (*other.source)->read(0)->a);
  EXPECT_EQ((*one.source)->read(0)->b, (*other.source)->read(0)->b);
  EXPECT_EQ((*one.source)->read(0)->b, of_tokens);
}

TEST(Adapter, unsupported_kinds_of_lora_are_rejected_by_name) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(, "bias": "all")", "bias"},
      {R"(, "lora_bias": true)", "lora_bias"},
      {R"(, "fan_in_fan_out": true)", "fan_in_fan_out"},
      {R"(, "modules_to_save": ["score"])", "modules_to_save"},
      {R"(, "layer_replication": [[0, 2]])", "layer_replication"},
      {R"(, "trainable_token_indices": {"embed_tokens": [1]})", "trainable_token_indices"},
      {R"(, "target_parameters": "down_proj")", "target_parameters"},
      {R"(, "alora_invocation_tokens": [1, 2])", "alora_invocation_tokens"},
      {R"(, "use_qalora": true)", "use_qalora"},
      {R"(, "init_lora_weights": "pissa_niter_4")", "init_lora_weights"},
      {R"(, "rank_pattern": {"model[": 4})", "rank_pattern"},
      {R"(, "alpha_pattern": {"q_proj": "much"})", "alpha_pattern.q_proj"},
      {R"(, "rank_pattern": {"q_proj": 257})", "rank_pattern.q_proj"},
  };
  for (const auto& [more, key] : cases) {
    const auto config = read_peft_config(peft_config(4, more));
    ASSERT_FALSE(config.has_value()) << more;
    EXPECT_THAT(config.error().message, HasSubstr(key));
  }
  for (const char* text :
       {"", "[]", "{}", R"({"peft_type": "LOHA", "r": 4, "lora_alpha": 1})",
        R"({"peft_type": "LORA", "r": 0, "lora_alpha": 1})", R"({"peft_type": "LORA", "r": 4})",
        R"({"peft_type": "LORA", "r": 4, "lora_alpha": 1e300})"}) {
    EXPECT_FALSE(read_peft_config(text).has_value()) << text;
  }
  // PEFT writes these fields for an ordinary adapter.
  EXPECT_TRUE(read_peft_config(peft_config(4, R"(, "use_dora": false, "bias": "none",
      "modules_to_save": null, "rank_pattern": {}, "alpha_pattern": {}, "layer_replication": null,
      "init_lora_weights": true, "trainable_token_indices": null, "target_modules": ["q_proj"])"))
                  .has_value());
}

TEST(Adapter, another_models_adapter_is_refused) {
  EXPECT_THAT(refusal(open_file(gguf_adapter(kDown, 64, 160, 4), "test-qwen2:f32")),
              HasSubstr("general.architecture"));
  EXPECT_THAT(refusal(open_file(gguf_adapter(kDown, 64, 161, 4))), HasSubstr("[64, 4]"));
  EXPECT_THAT(refusal(open_file(gguf_adapter("blk.9.ffn_down.weight", 64, 160, 4))),
              HasSubstr("blk.9.ffn_down.weight"));
  EXPECT_THAT(refusal(open_file(gguf_adapter("blk.0.attn_norm.weight", 64, 160, 4))),
              HasSubstr("blk.0.attn_norm.weight"));
  EXPECT_THAT(refusal(open_file(gguf_adapter("encoder.weight", 64, 160, 4))),
              HasSubstr("encoder.weight"));
  for (const char* module :
       {"model.layers.7.mlp.down_proj", "model.layers.1.mlp.c_proj", "encoder.down_proj",
        "model.layers.1.mlp.experts.0.down_proj", "model.embed_tokens", "model.layers.x.mlp"}) {
    EXPECT_THAT(refusal(open_peft(peft_config(4), peft_tensors(module, 64, 160, 4))),
                HasSubstr(module));
  }
}

TEST(Adapter, broken_pairs_are_refused) {
  GgufWriter lone = gguf_adapter(kDown, 64, 160, 4);
  lone.tensor("blk.0.ffn_down.weight.lora_a", {4, 160}, counted(640, 1));
  EXPECT_THAT(refusal(open_file(lone)), HasSubstr("blk.0.ffn_down.weight.lora_b"));
  GgufWriter other = gguf_adapter(kDown, 64, 160, 4);
  other.tensor("blk.0.attn_norm.weight", {64}, counted(64, 1));
  EXPECT_THAT(refusal(open_file(other)), HasSubstr("blk.0.attn_norm.weight"));
  GgufWriter uneven;
  uneven.key("general.type", "adapter");
  uneven.key("general.architecture", "llama");
  uneven.key("adapter.type", "lora");
  EXPECT_THAT(refusal(open_file(uneven)), HasSubstr("no pair"));
  uneven.tensor("blk.1.ffn_down.weight.lora_a", {4, 160}, counted(640, 1));
  uneven.tensor("blk.1.ffn_down.weight.lora_b", {64, 5}, counted(320, 1));
  EXPECT_THAT(refusal(open_file(uneven)), HasSubstr("ranks 4 and 5"));
  EXPECT_THAT(refusal(open_file(gguf_adapter(kDown, 64, 160, 257))), HasSubstr("257"));
  EXPECT_THAT(refusal(open_peft(peft_config(8), peft_tensors(kDownModule, 64, 160, 4))),
              HasSubstr("says 8"));
  EXPECT_THAT(refusal(open_peft(peft_config(4), SafetensorsWriter().floats(
                                                    "model.layers.1.mlp.down_proj.lora_A.weight",
                                                    {4, 160}, counted(640, 1)))),
              HasSubstr("base_model.model."));
}

TEST(Adapter, a_value_that_is_no_number_is_refused_when_it_is_read) {
  SafetensorsWriter file;
  auto a = counted(640, 1);
  a[17] = std::nanf("");
  file.floats("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight", {4, 160}, a);
  file.floats("base_model.model.model.layers.1.mlp.down_proj.lora_B.weight", {64, 4},
              counted(256, 1));
  auto opened = open_peft(peft_config(4), file);
  ASSERT_TRUE(opened.source.has_value()) << refusal(opened);
  const auto factors = (*opened.source)->read(0);
  ASSERT_FALSE(factors.has_value());
  EXPECT_THAT(factors.error().message, HasSubstr("lora_A"));
}

TEST(Adapter, blocks_are_refused_by_their_type) {
  GgufWriter file;
  file.key("general.type", "adapter");
  file.key("general.architecture", "llama");
  file.key("adapter.type", "lora");
  file.tensor("blk.1.ffn_down.weight.lora_a", {4, 160}, counted(640, 1), ElementType::kQ8_0);
  file.tensor("blk.1.ffn_down.weight.lora_b", {64, 4}, counted(256, 1));
  EXPECT_THAT(refusal(open_file(file)), HasSubstr("q8_0"));
}

TEST(Adapter, a_model_file_is_none) {
  GgufWriter file;
  file.key("general.architecture", "llama");
  EXPECT_THAT(refusal(open_file(file)), HasSubstr("general.type"));
}

TEST(Adapter, a_path_may_end_in_a_scale) {
  const auto spec = [](const char* text) { return parse_adapter_spec(text); };
  EXPECT_EQ(spec("a/b.gguf")->path, "a/b.gguf");
  EXPECT_EQ(spec("a/b.gguf")->scale, 1.0f);
  EXPECT_EQ(spec("a/b.gguf:0.5")->path, "a/b.gguf");
  EXPECT_EQ(spec("a/b.gguf:0.5")->scale, 0.5f);
  EXPECT_EQ(spec("a:-2")->scale, -2.0f);
  EXPECT_EQ(spec("c:/b.gguf")->path, "c:/b.gguf");
  for (const char* wrong : {"", ":1", "a:1e9", "a:inf", "a:nan", "a:1e99"}) {
    EXPECT_FALSE(spec(wrong).has_value()) << wrong;
  }
}

TEST(Adapter, a_folder_says_what_it_lacks) {
  const TemporaryFolder folder;
  const ModelConfig config = config_of("test-llama:f32");
  EXPECT_THAT(open_adapter(folder.path(), config).error().message,
              HasSubstr("adapter_config.json"));
  std::ofstream(folder.path() + "/adapter_config.json") << peft_config(4);
  EXPECT_THAT(open_adapter(folder.path(), config).error().message,
              HasSubstr("adapter_model.safetensors"));
  const auto bytes = peft_tensors(kDownModule, 64, 160, 4).bytes();
  std::ofstream(folder.path() + "/adapter_model.safetensors")
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  const auto opened = open_adapter(folder.path(), config, 0.5f);
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_FLOAT_EQ((*opened)->pairs()[0].scale, 1.0f);
  EXPECT_EQ(open_adapter(folder.path() + "/none.gguf", config).error().code, ErrorCode::kNotFound);
}

TEST(MergedTensors, adds_the_product_to_the_weights_and_leaves_others_alone) {
  auto opened = open_file(gguf_adapter(kDown, 64, 160, 4));
  const auto factors = *(*opened.source)->read(0);
  auto original = make_synthetic("synthetic:test-llama:q8_0");
  MemorySource copy(**original);
  const size_t down = *copy.find(kDown);
  std::vector<float> before(64 * 160);
  const auto bytes = *copy.read(down);
  for (size_t row = 0; row < 64; ++row) {
    dequantize_row(ElementType::kQ8_0, bytes.data() + row * bytes.size() / 64,
                   std::span(before).subspan(row * 160, 160));
  }
  const std::unique_ptr<ModelSource> merged = std::move(*original);
  merge_adapter(*merged, std::move(*opened.source));
  ASSERT_EQ(merged->tensors().size(), copy.tensors().size());
  EXPECT_EQ(merged->tensors()[down].type, ElementType::kF32);
  const auto after = *merged->read(down);
  for (size_t row = 0; row < 64; ++row) {
    for (size_t col = 0; col < 160; ++col) {
      double sum = before[row * 160 + col];
      for (size_t r = 0; r < 4; ++r) {
        sum += 2.0 * factors.b[row * 4 + r] * factors.a[r * 160 + col];
      }
      float value = 0;
      std::memcpy(&value, after.data() + (row * 160 + col) * 4, 4);
      ASSERT_FLOAT_EQ(value, static_cast<float>(sum));
    }
  }
  for (size_t i = 0; i < copy.tensors().size(); ++i) {
    if (i == down) continue;
    EXPECT_EQ(merged->tensors()[i].type, copy.tensors()[i].type);
    const auto left = *merged->read(i);
    const auto right = *copy.read(i);
    EXPECT_TRUE(std::ranges::equal(left, right)) << copy.tensors()[i].name;
  }
}

}  // namespace
}  // namespace kvik
