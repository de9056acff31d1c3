#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "format/opened_adapter.h"
#include "support/adapter_files.h"

namespace kvik {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kDownModule = "model.layers.1.mlp.down_proj";

std::string refusal_of(const Opened& opened) {
  EXPECT_FALSE(opened.source.has_value());
  return opened.refusal();
}

constexpr const char* kDora = R"(, "use_dora": true)";

// Returns the tensors of a module with magnitudes.
SafetensorsWriter dora_tensors(const std::string& module, uint64_t n, uint64_t k,
                               const std::vector<float>& magnitudes) {
  auto file = peft_tensors(module, n, k, 1);
  file.floats("base_model.model." + module + ".lora_magnitude_vector", {magnitudes.size()},
              magnitudes);
  return file;
}

TEST(PeftDora, magnitudes_of_dora_are_in_the_order_of_the_rows) {
  const std::string module = "model.layers.0.self_attn.k_proj";
  auto opened = open_peft(peft_config(1, kDora), dora_tensors(module, 32, 64, counted(32, 5)));
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  EXPECT_TRUE(needs_base(**opened.source));
  EXPECT_TRUE((*opened.source)->pairs()[0].has_magnitudes);
  const auto factors = (*opened.source)->read(0);
  ASSERT_TRUE(factors.has_value());
  for (size_t row = 0; row < 32; ++row) {  // b counts up from -1, and magnitudes from 5
    EXPECT_EQ(factors->magnitudes[row], factors->b[row] + 6);
  }
}

TEST(PeftSaved, an_embedding_may_be_saved_whole) {
  const ModelConfig model = config_of("test-llama:f32");
  const std::string config = peft_config(4, R"(, "modules_to_save": ["embed_tokens"])");
  const auto with_rows = [&](uint64_t n) {
    auto file = peft_tensors(kDownModule, 64, 160, 4);
    return file.floats("base_model.model.model.embed_tokens.weight", {n, 64}, counted(n * 64, 1));
  };
  auto opened = open_peft(config, with_rows(model.n_vocab));
  ASSERT_TRUE(opened.source.has_value()) << opened.refusal();
  ASSERT_EQ((*opened.source)->saved().size(), 1u);
  EXPECT_EQ((*opened.source)->saved()[0].tensor.role, TensorRole::kEmbedding);
  EXPECT_EQ((*opened.source)->read_saved(0)->size(), model.n_vocab * 64 * sizeof(float));
  EXPECT_THAT(refusal_of(open_peft(config, with_rows(model.n_vocab + 1))),
              HasSubstr(fmt::format("[{}, 64]", model.n_vocab + 1)));
  EXPECT_THAT(refusal_of(open_peft(config, peft_tensors(kDownModule, 64, 160, 4))),
              HasSubstr("modules_to_save"));
  EXPECT_THAT(refusal_of(open_peft(peft_config(4), with_rows(model.n_vocab))),
              HasSubstr("embed_tokens"));
}

TEST(PeftDora, dora_that_does_not_fit_its_config_is_refused) {
  const auto tensors = [](uint64_t n) { return dora_tensors(kDownModule, 64, 160, counted(n, 1)); };
  EXPECT_THAT(refusal_of(open_peft(peft_config(1), tensors(64))), HasSubstr("use_dora"));
  EXPECT_THAT(refusal_of(open_peft(peft_config(1, kDora), peft_tensors(kDownModule, 64, 160, 1))),
              HasSubstr("lora_magnitude_vector"));
  EXPECT_THAT(refusal_of(open_peft(peft_config(1, kDora), tensors(63))), HasSubstr("[63]"));
}

TEST(PeftDora, dora_of_an_embedding_is_refused) {
  const uint64_t n_vocab = config_of("test-llama:f32").n_vocab;
  SafetensorsWriter file;
  const std::string module = "base_model.model.model.embed_tokens";
  file.floats(module + ".lora_embedding_A", {1, n_vocab}, counted(n_vocab, 1));
  file.floats(module + ".lora_embedding_B", {64, 1}, counted(64, 1));
  file.floats(module + ".lora_magnitude_vector", {64}, counted(64, 1));
  EXPECT_THAT(refusal_of(open_peft(peft_config(1, kDora), file)),
              AllOf(HasSubstr("use_dora"), HasSubstr("embedding")));
}

}  // namespace
}  // namespace kvik
