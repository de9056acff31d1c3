#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "catalogue/tensor_roles.h"
#include "tensor/tensor_view.h"

namespace kvik {

// A target type of quantization: the type of most matrices, and the number of the mix in GGUF's
// "general.file_type".
struct MixTarget {
  ElementType type;
  uint32_t file_type;
};

std::span<const MixTarget> mix_targets();
std::optional<MixTarget> mix_target_from_name(std::string_view name);
std::string mix_target_names();  // "q8_0, q6_k, …"

// Returns whether K_M mixes give the sensitive matrices of that layer more bits: the first and the
// last eighth, and every third layer between.
bool has_more_bits(uint32_t layer, uint32_t n_layers);

// Chooses the type of each tensor of a model. Tensors whose errors cost most for their size keep
// more bits, by the rules of llama.cpp's K_M mixes (docs/reference/quantization.md has the table).
class WeightMix {
 public:
  enum class Kind { kMixed, kPure };  // kPure: every matrix in the target's type

  WeightMix(const MixTarget& target, Kind kind, std::span<const TensorInfo> tensors);

  struct Choice {
    ElementType type;
    // Type of the mix that was replaced by `type`, because rows are not a multiple of its block.
    std::optional<ElementType> wanted = {};
  };
  Choice choose(const TensorInfo& tensor) const;

 private:
  ElementType wanted_type(const TensorInfo& tensor) const;
  ElementType fp4_or_bytes(TensorId tensor) const;
  ElementType type_in_layer(TensorId tensor) const;

  MixTarget target_;
  Kind kind_;
  uint32_t n_layers_ = 0;
  bool has_head_ = false;  // has a head separate from the embedding
  bool has_experts_ = false;
  bool shares_values_ = false;  // at least four query heads share a value head
};

}  // namespace kvik
