#include "format/hf/family.h"

#include <fmt/format.h>

namespace kvik::hf {
namespace {

// Defaults are those of the configuration classes of transformers 4 and 5.
constexpr Family kFamilies[] = {
    {.model_type = "llama",
     .architecture = "llama",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false})",
     .pairs_rows = true},
    {.model_type = "mistral",
     .architecture = "llama",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "sliding_window": 4096,
                     "num_key_value_heads": 8})",
     .window = Window::kAll,
     .pairs_rows = true},
    {.model_type = "mixtral",
     .architecture = "llama",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false, "rope_theta": 1e6,
                     "num_key_value_heads": 8})",
     .window = Window::kAll,
     .experts = ExpertNames::kW123,
     .pairs_rows = true},
    {.model_type = "qwen2",
     .architecture = "qwen2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false})",
     .window = Window::kAllIfAsked,
     .has_qkv_bias = true},
    {.model_type = "qwen2_moe",
     .architecture = "qwen2moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = Window::kAllIfAsked,
     .experts = ExpertNames::kProjections,
     .has_qkv_bias = true},
    {.model_type = "qwen3",
     .architecture = "qwen3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "head_dim": 128})",
     .window = Window::kAllIfAsked,
     .has_qk_norm = true},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false, "norm_topk_prob": false})",
     .window = Window::kAllIfAsked,
     .experts = ExpertNames::kProjections,
     .has_qk_norm = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256,
                     "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})",
     .activation = "gelu_pytorch_tanh",
     .window = Window::kEverySecond,
     .norms = Norms::kBoth,
     .norms_lack_one = true,
     .has_query_scalar = true},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .whole_type = "gemma3",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": true, "head_dim": 256,
                     "sliding_window": 4096, "query_pre_attn_scalar": 256, "rope_theta": 1e6,
                     "rope_local_base_freq": 1e4, "sliding_window_pattern": 6,
                     "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216,
                     "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
                     "max_position_embeddings": 131072})",
     .activation = "gelu_pytorch_tanh",
     .window = Window::kFiveOfSix,
     .norms = Norms::kBoth,
     .norms_lack_one = true,
     .has_qk_norm = true,
     .has_query_scalar = true},
    {.model_type = "phi3",
     .architecture = "phi3",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .window = Window::kAll,
     .is_fused = true},
    {.model_type = "granite",
     .architecture = "granite",
     .defaults = R"({"rms_norm_eps": 1e-6, "tie_word_embeddings": false,
                     "attention_multiplier": 1.0})",
     .pairs_rows = true,
     .has_scales = true},
    {.model_type = "olmo2",
     .architecture = "olmo2",
     .defaults = R"({"rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
     .norms = Norms::kBehind,
     .has_qk_norm = true},
};

}  // namespace

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string known_model_types() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += names.empty() ? "" : ", ";
    names += family.model_type;
    if (!family.whole_type.empty()) names += fmt::format(", {}", family.whole_type);
  }
  return names;
}

}  // namespace kvik::hf
