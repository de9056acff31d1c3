#pragma once

#include <cstdint>

#include "base/result.h"
#include "catalogue/family.h"
#include "format/model_source.h"

namespace kvik::hf {

// Converts the experts of gpt-oss to the layout of other folders: "…experts.gate_up_proj" [experts,
// 2 · ffn, model] with gate before up, and "…experts.down_proj" [experts, model, ffn] per layer. In
// gpt-oss they are either "_blocks" of 4 bits with "_scales" (OCP's microscaling), which become
// mxfp4, or 16-bit and transposed. Rows of gate and up alternate there, also in biases. With
// kTransposed (Qwen3-VL), experts are transposed but have gate before up. Tensors are made when
// they are read; all other tensors are unchanged. Errors: kCorrupt, naming a tensor whose shape or
// type does not fit.
Result<void> convert_experts(ModelSource& source, ExpertStacks stacks);

// Sizes of one expert.
struct ExpertShape {
  uint64_t model_dim, ffn_dim;
};
// Returns whether the stacks of experts are transposed: those of Qwen3-VL's own folders are, those
// that Transformers 5 writes are not. Returns true if the shapes do not show it.
bool are_experts_transposed(const ModelSource& base, const ExpertShape& usual);

}  // namespace kvik::hf
