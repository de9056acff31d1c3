#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kvik::hf {

enum class Norms : uint8_t { kBefore, kBehind, kBoth };  // of attention and MLP
enum class Window : uint8_t {
  kNone,
  kAll,          // "sliding_window" is for all layers
  kAllIfAsked,   // with "use_sliding_window"
  kEverySecond,  // the first one has it
  kFiveOfSix,    // the first five have it
};
// How the tensors of experts are called.
enum class ExpertNames : uint8_t { kNone, kW123, kProjections };

// A type of models as Hugging Face's transformers writes them: what config.json leaves unsaid, and
// how its tensors differ from those of a GGUF file.
struct Family {
  std::string_view model_type;       // in config.json
  std::string_view architecture;     // of a GGUF file
  std::string_view whole_type = {};  // of a model whose "text_config" is such a one
  std::string_view defaults;         // JSON, of what config.json may leave out
  std::string_view activation = "silu";
  Window window = Window::kNone;
  Norms norms = Norms::kBefore;
  ExpertNames experts = ExpertNames::kNone;
  bool pairs_rows = false;      // GGUF files hold the rows of Q and K in another order
  bool norms_lack_one = false;  // their weights are stored less one
  bool has_qkv_bias = false;
  bool has_qk_norm = false;
  bool is_fused = false;          // QKV, and gate with up
  bool has_scales = false;        // embedding, residual, attention and logits
  bool has_query_scalar = false;  // attention is scaled by its root
};

// Null where the type is not known.
const Family* find_family(std::string_view model_type);

// "llama, mistral, …"
std::string known_model_types();

}  // namespace kvik::hf
