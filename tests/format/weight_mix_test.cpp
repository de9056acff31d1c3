#include "format/weight_mix.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvik {
namespace {

using enum ElementType;

TensorInfo matrix(std::string name, uint64_t n_rows, uint64_t n_cols) {
  return {std::move(name), kF32, {n_rows, n_cols}, n_rows * n_cols * 4};
}

std::vector<TensorInfo> layers(uint32_t n, uint64_t n_value_rows) {
  std::vector<TensorInfo> tensors = {matrix("token_embd.weight", 1000, 512)};
  for (uint32_t i = 0; i < n; ++i) {
    const std::string layer = fmt::format("blk.{}.", i);
    tensors.push_back(matrix(layer + "attn_q.weight", 512, 512));
    tensors.push_back(matrix(layer + "attn_v.weight", n_value_rows, 512));
    tensors.push_back(matrix(layer + "ffn_down.weight", 512, 1024));
  }
  return tensors;
}

// Returns the types of one part in all layers, such as "q6_k q4_k q4_k".
std::string types_of(std::string_view part, const char* target, uint32_t n_layers,
                     uint64_t n_value_rows = 512) {
  const auto tensors = layers(n_layers, n_value_rows);
  const WeightMix mix(*mix_target_from_name(target), WeightMix::Kind::kMixed, tensors);
  std::string types;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.name.find(part) == std::string::npos) continue;
    if (!types.empty()) types += ' ';
    types += name_of(mix.choose(tensor).type);
  }
  return types;
}

ElementType type_of(const TensorInfo& tensor, const char* target,
                    std::vector<TensorInfo> others = layers(8, 512)) {
  others.push_back(tensor);
  return WeightMix(*mix_target_from_name(target), WeightMix::Kind::kMixed, others)
      .choose(tensor)
      .type;
}

TEST(WeightMix, half_of_the_down_projections_get_more_bits) {
  EXPECT_EQ(types_of("ffn_down", "q4_k", 8), "q6_k q4_k q4_k q6_k q4_k q4_k q6_k q6_k");
  EXPECT_EQ(types_of("ffn_down", "q5_k", 8), "q6_k q5_k q5_k q6_k q5_k q5_k q6_k q6_k");
  EXPECT_EQ(types_of("attn_v", "q4_k", 8), "q6_k q4_k q4_k q6_k q4_k q4_k q6_k q6_k");
  EXPECT_EQ(types_of("attn_q", "q4_k", 8), "q4_k q4_k q4_k q4_k q4_k q4_k q4_k q4_k");
}

TEST(WeightMix, few_bits_get_more_of_them_where_it_matters) {
  EXPECT_EQ(types_of("ffn_down", "q3_k", 4), "q4_k q4_k q4_k q4_k");
  EXPECT_EQ(types_of("attn_v", "q3_k", 4), "q5_k q5_k q4_k q4_k");
  EXPECT_EQ(types_of("attn_v", "q2_k", 2), "q3_k q3_k");
  EXPECT_EQ(types_of("attn_q", "q2_k", 2), "q2_k q2_k");
  EXPECT_EQ(types_of("attn_v", "iq3_xxs", 2), "iq3_s iq3_s");
  EXPECT_EQ(types_of("ffn_down", "iq2_xxs", 8),
            "q2_k iq2_xxs iq2_xxs iq2_xxs iq2_xxs iq2_xxs iq2_xxs iq2_xxs");
  EXPECT_EQ(types_of("ffn_down", "iq2_s", 8), "iq3_s iq2_s iq2_s iq2_s iq2_s iq2_s iq2_s iq2_s");
  EXPECT_EQ(types_of("attn_q", "iq1_s", 2), "iq1_s iq1_s");
  EXPECT_EQ(types_of("attn_v", "iq4_ks", 2), "iq5_k iq5_k");
  EXPECT_EQ(types_of("attn_v", "iq6_k", 2), "iq6_k iq6_k");
  EXPECT_EQ(type_of(matrix("blk.0.attn_output.weight", 512, 512), "iq2_k"), kIQ3_K);
  EXPECT_EQ(types_of("ffn_down", "iq2_ks", 8),
            "iq3_k iq2_ks iq2_ks iq2_ks iq2_ks iq2_ks iq2_ks iq2_ks");
  EXPECT_EQ(types_of("ffn_down", "iq4_k", 8), "iq4_k iq4_k iq4_k iq4_k iq4_k iq4_k iq4_k iq4_k");
}

TEST(WeightMix, layers_of_a_ternary_model_have_one_type) {
  EXPECT_EQ(types_of("attn_v", "tq2_0", 2, 128), "tq2_0 tq2_0");
  EXPECT_EQ(types_of("ffn_down", "tq1_0", 2), "tq1_0 tq1_0");
  EXPECT_EQ(types_of("attn_v", "q1_0", 2, 128), "q1_0 q1_0");
  EXPECT_EQ(types_of("ffn_down", "q2_0", 2), "q2_0 q2_0");
  const TensorInfo experts{"blk.0.ffn_up_exps.weight", kF32, {8, 512, 512}, 0};
  EXPECT_EQ(type_of(matrix("blk.0.attn_k.weight", 512, 512), "tq2_0", {experts}), kTQ2_0);
}

TEST(WeightMix, values_that_many_queries_read_get_more_bits_everywhere) {
  EXPECT_EQ(types_of("attn_v", "q4_k", 4, 128), "q6_k q6_k q6_k q6_k");
  EXPECT_EQ(types_of("attn_v", "q2_k", 4, 128), "q4_k q4_k q4_k q4_k");
  EXPECT_EQ(types_of("attn_v", "iq2_xs", 4, 128), "q4_k q4_k q4_k q4_k");
  EXPECT_EQ(types_of("attn_v", "iq2_ks", 2, 128), "iq4_k iq4_k");
}

TEST(WeightMix, the_head_and_an_embedding_that_is_one_are_q6_k) {
  const TensorInfo embedding = matrix("token_embd.weight", 1000, 512);
  const TensorInfo head = matrix("output.weight", 1000, 512);
  for (const char* target : {"q5_k", "q4_k", "q4_0", "q3_k", "q2_k", "iq3_s", "iq1_s", "tq2_0"}) {
    EXPECT_EQ(type_of(head, target), kQ6_K);
    EXPECT_EQ(type_of(embedding, target, {}), kQ6_K);
  }
  EXPECT_EQ(type_of(embedding, "q2_k", {head}), kQ4_K);
  EXPECT_EQ(type_of(embedding, "q4_k", {head}), kQ5_K);
  EXPECT_EQ(type_of(embedding, "iq3_xxs", {head}), kIQ3_S);
  EXPECT_EQ(type_of(embedding, "iq2_xxs", {head}), kQ2_K);
  EXPECT_EQ(type_of(embedding, "iq4_ks", {head}), kIQ5_K);
  EXPECT_EQ(type_of(head, "q8_0"), kQ8_0);
  EXPECT_EQ(type_of(head, "bf16"), kBF16);
}

TEST(WeightMix, vectors_and_routers_stay_f32) {
  const TensorInfo norm{"blk.0.attn_norm.weight", kBF16, {512}, 1024};
  EXPECT_EQ(type_of(norm, "q4_k"), kF32);
  EXPECT_EQ(type_of(norm, "f16"), kF32);
  EXPECT_EQ(type_of(matrix("blk.0.ffn_gate_inp.weight", 8, 512), "q4_k"), kF32);
}

TEST(WeightMix, beside_experts_keys_and_values_are_q8_0) {
  TensorInfo experts{"blk.0.ffn_up_exps.weight", kF32, {8, 512, 512}, 0};
  EXPECT_EQ(type_of(matrix("blk.0.attn_k.weight", 512, 512), "q4_k", {experts}), kQ8_0);
  EXPECT_EQ(type_of(experts, "q4_k"), kQ4_K);
}

TEST(WeightMix, rows_that_are_no_multiple_of_the_block_fall_back_and_say_so) {
  struct Case {
    const char* target;
    uint64_t n_cols;
    ElementType type;
  };
  for (const Case& c :
       {Case{"q2_k", 96, kIQ4_NL}, Case{"q3_k", 96, kIQ4_NL}, Case{"q4_k", 96, kQ5_0},
        Case{"q5_k", 96, kQ5_1}, Case{"q6_k", 96, kQ8_0}, Case{"q4_0", 100, kF16},
        Case{"q4_k", 100, kF16}, Case{"iq2_xs", 96, kIQ4_NL}, Case{"iq3_s", 96, kIQ4_NL},
        Case{"tq1_0", 96, kQ4_0}, Case{"q2_0", 96, kQ4_0}, Case{"q1_0", 192, kQ4_0},
        Case{"q1_0", 100, kF16}, Case{"iq3_ks", 96, kIQ4_NL}, Case{"iq4_ks", 96, kQ5_0},
        Case{"iq5_k", 96, kQ5_1}, Case{"iq6_k", 96, kQ8_0}}) {
    const TensorInfo tensor = matrix("blk.0.attn_q.weight", 4, c.n_cols);
    const WeightMix mix(*mix_target_from_name(c.target), WeightMix::Kind::kMixed, {&tensor, 1});
    const auto choice = mix.choose(tensor);
    EXPECT_EQ(choice.type, c.type) << c.target << " with rows of " << c.n_cols;
    EXPECT_EQ(choice.wanted, mix_target_from_name(c.target)->type);
  }
}

TEST(WeightMix, pure_is_one_type_for_all_matrices) {
  const TensorInfo head = matrix("output.weight", 1000, 512);
  const WeightMix mix(*mix_target_from_name("q2_k"), WeightMix::Kind::kPure, {&head, 1});
  EXPECT_EQ(mix.choose(head).type, kQ2_K);
}

TEST(WeightMix, names_of_targets_are_those_of_types) {
  EXPECT_FALSE(mix_target_from_name("q4_k_m").has_value());
  EXPECT_EQ(mix_target_names(),
            "q8_0, q6_k, q5_k, q4_k, q4_0, mxfp4, nvfp4, q3_k, iq3_s, iq3_xxs, q2_k, iq2_s, "
            "iq2_xs, iq2_xxs, iq1_m, iq1_s, q2_0, tq2_0, tq1_0, q1_0, iq6_k, iq5_k, iq5_ks, iq4_k, "
            "iq4_ks, iq4_kss, iq3_k, iq3_ks, iq2_kl, iq2_k, iq2_ks, bf16, f16");
}

}  // namespace
}  // namespace kvik
