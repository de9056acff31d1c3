#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "format/adapter/name_pattern.h"
#include "format/adapter/peft_adapter.h"
#include "format/opened_adapter.h"
#include "support/adapter_files.h"
#include "support/temporary_folder.h"

// PEFT adapters whose patterns are regular expressions, and adapters of stacked parameters.

namespace kvik {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using enum TensorRole;

// The expected result is that of Python's re.match(rf"(.*\.)?({key})$", name).
TEST(NamePattern, means_what_peft_means_by_it) {
  struct Case {
    const char *key, *name;
    bool is_saved;
  };
  const Case cases[] = {
      {"q_proj", "model.layers.0.self_attn.q_proj", true},
      {"q_proj", "q_proj", true},
      {"proj", "model.layers.0.self_attn.q_proj", false},
      {"self_attn.q_proj", "model.layers.0.self_attn.q_proj", true},
      {"self.attn.q_proj", "model.layers.0.self_attn.q_proj", true},
      {"layers.0", "model.layers.0.self_attn.q_proj", false},
      {"", "model.", true},
      {"", "model", false},
      {".*q_proj", "model.layers.0.self_attn.q_proj", true},
      {"[qk]_proj", "model.layers.0.self_attn.k_proj", true},
      {"[qk]_proj", "model.layers.0.self_attn.v_proj", false},
      {"layers\\.1\\..*", "model.layers.1.mlp.up_proj", true},
      {"layers\\.1\\..*", "model.layers.11.mlp.up_proj", false},
      {"layers.1\\..*", "model.layers.11.mlp.up_proj", false},
      {"^model.layers.0.*", "model.layers.0.mlp.up_proj", true},
      {"model.layers.(0|2).mlp.(up|down)_proj", "model.layers.2.mlp.down_proj", true},
      {"(?:up|down)_proj", "model.layers.2.mlp.gate_proj", false},
      {"layers\\.\\d{1,2}\\..*_proj", "model.layers.17.mlp.gate_proj", true},
      {"(?!down)\\w+_proj", "model.layers.17.mlp.down_proj", false},
      {".*\\.gate_up_proj", "model.layers.3.mlp.experts.gate_up_proj", true},
  };
  for (const Case& c : cases) {
    const auto pattern = NamePattern::compile(c.key);
    ASSERT_TRUE(pattern.has_value()) << c.key << ": " << pattern.error().message;
    EXPECT_EQ(*pattern->matches(c.name), c.is_saved) << c.key << " for " << c.name;
  }
}

TEST(NamePattern, invalid_or_slow_patterns_are_rejected) {
  for (const char* key : {"q_proj[", "(q_proj", "*", "q{2,1}"}) {
    const auto pattern = NamePattern::compile(key);
    ASSERT_FALSE(pattern.has_value()) << key;
    EXPECT_THAT(pattern.error().message, AllOf(HasSubstr("expected"), HasSubstr(key)));
  }
  EXPECT_FALSE(NamePattern::compile(std::string(100'000, 'a')).has_value());
  const auto slow = NamePattern::compile("(a+)+[bc]");
  const auto found = slow->matches(std::string(60, 'a'));
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().message, HasSubstr("steps"));
}

constexpr const char* kDownModule = "model.layers.1.mlp.down_proj";

TEST(PeftPatterns, the_first_that_means_a_module_counts) {
  const std::pair<const char*, float> cases[] = {
      {R"({"down_proj": 2, "layers.1.mlp.down_proj": 12})", 0.5f},
      {R"({"layers.1.mlp.down_proj": 12, "down_proj": 2})", 3.0f},
      {R"({"up_proj": 12, ".*layers\\.[1-3]\\.mlp\\.\\w+": 4, "down_proj": 2})", 1.0f},
      {R"({"q_proj": 12})", 2.0f},
  };
  for (const auto& [alphas, scale] : cases) {
    auto opened = open_peft(peft_config(4, fmt::format(R"(, "alpha_pattern": {})", alphas)),
                            peft_tensors(kDownModule, 64, 160, 4), "test-llama:f32");
    ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
    EXPECT_FLOAT_EQ((*opened.source)->pairs()[0].scale, scale) << alphas;
  }
  auto ranked = open_peft(peft_config(4, R"(, "rank_pattern": {"layers\\.\\d+\\.mlp\\..*": 3})"),
                          peft_tensors(kDownModule, 64, 160, 3), "test-llama:f32");
  ASSERT_TRUE(ranked.source.has_value()) << ranked.refusal();
  EXPECT_FLOAT_EQ((*ranked.source)->pairs()[0].scale, 8.0f / 3);
  auto slow = open_peft(peft_config(4, R"(, "rank_pattern": {"(\\w+\\.?)+[#!]": 3})"),
                        peft_tensors(kDownModule, 64, 160, 3), "test-llama:f32");
  EXPECT_THAT(slow.refusal(), AllOf(HasSubstr("steps"), HasSubstr(kDownModule)));
}

// The tensors show which modules have pairs, so target_modules may have any form.
TEST(PeftPatterns, target_modules_may_be_a_list_an_expression_or_all) {
  for (const char* modules : {R"(["down_proj"])", R"("down_proj")", R"("all-linear")", "null",
                              R"("model\\.layers\\.\\d+\\.mlp\\.(up|down)_proj")"}) {
    auto opened = open_peft(peft_config(4, fmt::format(R"(, "target_modules": {})", modules)),
                            peft_tensors(kDownModule, 64, 160, 4), "test-llama:f32");
    ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
    EXPECT_EQ((*opened.source)->read(0)->a, counted(4 * 160, 1));
  }
}

using Matrix = std::vector<float>;

// Returns the change of each expert's matrix, [outputs, inputs], as PEFT computes it: einsum("o r
// e, e r i -> e o i", B.reshape(outputs, rank, experts), A.reshape(experts, rank, inputs)).
std::vector<Matrix> changes(const Matrix& a, const Matrix& b, size_t n_experts, size_t rank) {
  const size_t n_in = a.size() / n_experts / rank;
  const size_t n_out = b.size() / n_experts / rank;
  std::vector<Matrix> out(n_experts, Matrix(n_out * n_in));
  for (size_t e = 0; e < n_experts; ++e) {
    for (size_t o = 0; o < n_out; ++o) {
      for (size_t i = 0; i < n_in; ++i) {
        for (size_t r = 0; r < rank; ++r) {
          out[e][o * n_in + i] += b[(o * rank + r) * n_experts + e] * a[(e * rank + r) * n_in + i];
        }
      }
    }
  }
  return out;
}

Matrix transposed(const Matrix& m, size_t n_cols) {
  Matrix out(m.size());
  const size_t n_rows = m.size() / n_cols;
  for (size_t i = 0; i < m.size(); ++i) out[i % n_cols * n_rows + i / n_cols] = m[i];
  return out;
}

// Returns the products of the pairs of a source, by tensor and part.
std::map<std::pair<TensorId, uint32_t>, Matrix> products(AdapterSource& source) {
  std::map<std::pair<TensorId, uint32_t>, Matrix> out;
  for (size_t p = 0; p < source.pairs().size(); ++p) {
    const AdapterPair& pair = source.pairs()[p];
    const auto factors = source.read(p);
    EXPECT_TRUE(factors.has_value());
    Matrix& product = out[{pair.tensor, pair.part}];
    product.resize(pair.n_rows * pair.n_cols);
    for (size_t i = 0; i < product.size(); ++i) {
      for (size_t r = 0; r < pair.rank; ++r) {
        product[i] += factors->b[i / pair.n_cols * pair.rank + r] *
                      factors->a[r * pair.n_cols + i % pair.n_cols];
      }
    }
  }
  return out;
}

struct Stack {
  size_t n_experts, rank, n_in, n_out;

  Matrix a() const { return counted(n_experts * rank * n_in, -3); }
  Matrix b() const { return counted(n_out * rank * n_experts, -5); }
  void write(SafetensorsWriter& file, const std::string& module) const {
    const uint64_t all = n_experts * rank;
    file.floats(fmt::format("base_model.model.{}.lora_A.weight", module), {all, n_in}, a());
    file.floats(fmt::format("base_model.model.{}.lora_B.weight", module), {n_out, all}, b());
  }
};

constexpr const char* kExperts = "model.layers.1.mlp.experts";
constexpr const char* kBoth =
    R"(, "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])";

// The outer pair belongs to the parameter that the module defines last.
TEST(PeftStacks, every_expert_has_its_part_of_the_pair) {
  const Stack gate_up{8, 2, 64, 192}, down{8, 2, 96, 64};
  SafetensorsWriter file;
  gate_up.write(file, std::string(kExperts) + ".base_layer");
  down.write(file, kExperts);
  auto opened = open_peft(peft_config(2, kBoth), file, "test-qwen35moe:f32");
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  auto found = products(**opened.source);
  ASSERT_EQ(found.size(), 24u);
  const auto gates_and_ups = changes(gate_up.a(), gate_up.b(), 8, 2);
  const auto downs = changes(down.a(), down.b(), 8, 2);
  for (uint32_t e = 0; e < 8; ++e) {
    const Matrix& both = gates_and_ups[e];
    const auto half = both.begin() + 96 * 64;
    EXPECT_EQ((found[{{kExpertGate, 1}, e}]), Matrix(both.begin(), half));
    EXPECT_EQ((found[{{kExpertUp, 1}, e}]), Matrix(half, both.end()));
    EXPECT_EQ((found[{{kExpertDown, 1}, e}]), downs[e]);
  }
  EXPECT_FLOAT_EQ((*opened.source)->pairs()[0].scale, 4.0f);
}

// Until 0.19.1, PEFT interpreted the first axis after the experts as the inputs.
TEST(PeftStacks, a_pair_may_be_that_of_the_transposed_matrices) {
  const Stack gate_up{8, 2, 192, 64};
  SafetensorsWriter file;
  gate_up.write(file, kExperts);
  auto opened = open_peft(peft_config(2, R"(, "target_parameters": ["experts.gate_up_proj"])"),
                          file, "test-qwen35moe:f32");
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  auto found = products(**opened.source);
  const auto want = changes(gate_up.a(), gate_up.b(), 8, 2);  // [inputs, outputs] of each expert
  for (uint32_t e = 0; e < 8; ++e) {
    const Matrix both = transposed(want[e], 192);
    EXPECT_EQ((found[{{kExpertGate, 1}, e}]), Matrix(both.begin(), both.begin() + 96 * 64));
    EXPECT_EQ((found[{{kExpertUp, 1}, e}]), Matrix(both.begin() + 96 * 64, both.end()));
  }
}

TEST(PeftStacks, ambiguous_shapes_are_resolved_by_the_peft_version) {
  const auto flips = [](const char* version, ExpertStacks stacks) {
    const auto config =
        read_peft_config(peft_config(2, fmt::format(R"(, "peft_version": "{}")", version)));
    return config->flips_stacks(stacks);
  };
  for (const char* version : {"0.19.1", "0.19.1.dev0", "0.20.0", "1.0"}) {
    EXPECT_FALSE(flips(version, ExpertStacks::kUsual)) << version;
    EXPECT_FALSE(flips(version, ExpertStacks::kInterleaved)) << version;
  }
  EXPECT_TRUE(flips("0.18.1", ExpertStacks::kUsual));
  EXPECT_FALSE(flips("0.18.1", ExpertStacks::kInterleaved));
  EXPECT_TRUE(flips("0.19.0", ExpertStacks::kInterleaved));
  EXPECT_TRUE(read_peft_config(peft_config(2))->flips_stacks(ExpertStacks::kUsual));
}

TEST(PeftStacks, gate_and_up_rows_may_alternate) {
  const Stack gate_up{8, 1, 64, 192};
  SafetensorsWriter file;
  gate_up.write(file, "model.layers.0.mlp.experts");
  auto opened = open_peft(peft_config(1, R"(, "target_parameters": ["mlp.experts.gate_up_proj"])"),
                          file, "test-gptoss:f32");
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  auto found = products(**opened.source);
  const auto want = changes(gate_up.a(), gate_up.b(), 8, 1);
  for (uint32_t e = 0; e < 8; ++e) {
    for (size_t row = 0; row < 96; ++row) {
      for (const auto& [role, part] : {std::pair(kExpertGate, 0), {kExpertUp, 1}}) {
        const Matrix& of = found[{{role, 0}, e}];
        const auto there = want[e].begin() + static_cast<ptrdiff_t>((2 * row + part) * 64);
        EXPECT_TRUE(std::equal(there, there + 64, of.begin() + static_cast<ptrdiff_t>(row * 64)));
      }
    }
  }
}

// In Granite, each stack is the only weight of a module; patterns match the parameter.
TEST(PeftStacks, a_module_may_be_one_stack) {
  const Stack down{6, 3, 96, 64};
  SafetensorsWriter file;
  down.write(file, "model.layers.0.block_sparse_moe.output_linear");
  auto opened = open_peft(peft_config(2, R"(, "rank_pattern": {".*output_linear\\.weight": 3},
                     "target_parameters": ["block_sparse_moe.output_linear.weight"])"),
                          file, "test-granitemoe:f32");
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  auto found = products(**opened.source);
  const auto want = changes(down.a(), down.b(), 6, 3);
  for (uint32_t e = 0; e < 6; ++e) EXPECT_EQ((found[{{kExpertDown, 0}, e}]), want[e]);
}

// The values are those of a pair of the module.
TEST(PeftStacks, a_parameter_may_be_one_matrix) {
  auto opened = open_peft(peft_config(2, R"(, "target_parameters": ["down_proj.weight"],
                                       "alpha_pattern": {"down_proj.weight": 6, "down_proj": 1})"),
                          peft_tensors(kDownModule, 64, 160, 2), "test-llama:f32");
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  EXPECT_EQ((*opened.source)->read(0)->b, counted(64 * 2, -1));
  EXPECT_FLOAT_EQ((*opened.source)->pairs()[0].scale, 3.0f);
}

TEST(PeftStacks, what_does_not_fit_is_refused) {
  const auto refusal = [](const Stack& stack, const std::string& module, const std::string& more) {
    SafetensorsWriter file;
    stack.write(file, module);
    return open_peft(peft_config(2, more), file, "test-qwen35moe:f32").refusal();
  };
  const Stack good{8, 2, 96, 64};
  EXPECT_THAT(refusal(good, kExperts, ""), AllOf(HasSubstr(kExperts), HasSubstr("name 0")));
  EXPECT_THAT(refusal(good, std::string(kExperts) + ".base_layer.base_layer", kBoth),
              AllOf(HasSubstr("3 parameters"), HasSubstr("name 2")));
  EXPECT_THAT(refusal(good, std::string(kExperts) + ".base_layer", kBoth),
              AllOf(HasSubstr("gate_up_proj"), HasSubstr("[192, 16]")));
  EXPECT_THAT(refusal({8, 3, 96, 64}, kExperts, kBoth), HasSubstr("rank 3"));
  EXPECT_THAT(refusal({7, 2, 96, 64}, kExperts, kBoth), HasSubstr("8 experts"));
  EXPECT_THAT(refusal({8, 300, 96, 64}, kExperts, kBoth), HasSubstr("1 to 256"));
  EXPECT_THAT(refusal(good, std::string(kDownModule) + ".base_layer", kBoth),
              HasSubstr("base_layer"));
}

}  // namespace
}  // namespace kvik
