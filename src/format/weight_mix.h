#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "catalogue/tensor_roles.h"
#include "tensor/tensor_view.h"

namespace kvik {

// What a model's weights can be made: the type of most of its matrices, and the number by which
// GGUF's "general.file_type" calls the mixture.
struct MixTarget {
  ElementType type;
  uint32_t file_type;
};

std::span<const MixTarget> mix_targets();
std::optional<MixTarget> mix_target_from_name(std::string_view name);
std::string mix_target_names();  // "q8_0, q6_k, …"

// Whether K_M mixtures give the sensitive matrices of that layer more bits: those of the first and
// the last eighth, and of every third layer between.
bool has_more_bits(uint32_t layer, uint32_t n_layers);

// Which type each tensor of a model gets. What errs most dearly for its size keeps more bits, by
// the rules of llama.cpp's K_M mixtures (docs/QUANTISATION.md has the table).
class WeightMix {
 public:
  enum class Kind { kMixed, kPure };  // kPure: every matrix in the target's type

  WeightMix(const MixTarget& target, Kind kind, std::span<const TensorInfo> tensors);

  struct Choice {
    ElementType type;
    // What the mixture wanted where rows are no multiple of its block, so that `type` stands in.
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
  bool has_head_ = false;  // an output matrix beside the embedding
  bool has_experts_ = false;
  bool shares_values_ = false;  // four query heads or more read each value head
};

}  // namespace kvik
