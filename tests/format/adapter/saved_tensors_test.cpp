#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "format/opened_adapter.h"
#include "support/adapter_files.h"

// Tensors that an adapter of PEFT saves whole ("modules_to_save").
namespace kvik {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Merging gave the tensor the size of f32 values and the saved tensor's bytes, so that reading the
// merged tensor read beyond them.
TEST(SavedTensors, a_tensor_with_a_pair_and_a_saved_copy_is_rejected) {
  const uint64_t n_vocab = config_of("test-llama:f32").n_vocab;
  const auto whole = counted(n_vocab * 64, 1);
  SafetensorsWriter head = peft_tensors("lm_head", n_vocab, 64, 4);
  head.tensor("base_model.model.lm_head.weight", "BF16", {n_vocab, 64},
              std::as_bytes(std::span(whole)).first(n_vocab * 64 * 2));
  EXPECT_THAT(open_peft(peft_config(4, R"(, "modules_to_save": ["lm_head"])"), head).refusal(),
              AllOf(HasSubstr("base_model.model.lm_head.weight"), HasSubstr("output.weight")));
  SafetensorsWriter embedding;
  embedding.floats("base_model.model.model.embed_tokens.lora_embedding_A", {4, n_vocab},
                   counted(4 * n_vocab, 1));
  embedding.floats("base_model.model.model.embed_tokens.lora_embedding_B", {64, 4},
                   counted(256, 1));
  embedding.floats("base_model.model.model.embed_tokens.weight", {n_vocab, 64}, whole);
  EXPECT_THAT(
      open_peft(peft_config(4, R"(, "modules_to_save": ["embed_tokens"])"), embedding).refusal(),
      HasSubstr("token_embd.weight"));
  SafetensorsWriter twice;
  twice.floats("base_model.model.lm_head.weight", {n_vocab, 64}, whole);
  twice.floats("base_model.model.model.lm_head.weight", {n_vocab, 64}, whole);
  EXPECT_THAT(open_peft(peft_config(4, R"(, "modules_to_save": ["lm_head"])"), twice).refusal(),
              HasSubstr("two tensors"));
}

}  // namespace
}  // namespace kvik
