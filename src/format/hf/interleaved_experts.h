#pragma once

#include <cstdint>

#include "base/result.h"
#include "catalogue/family.h"
#include "format/model_source.h"

namespace kvik::hf {

// Turns experts as gpt-oss stores them into what other folders have: of each layer
// "…experts.gate_up_proj" [experts, 2 · ffn, model], the gates over the ups, and
// "…experts.down_proj" [experts, model, ffn]. There they are either "_blocks" of 4 bits with
// "_scales" (OCP's microscaling), which become mxfp4, or of 16 bits and transposed; gates and ups
// take turns, in their biases as well. Made when they are read; all others stay as they are.
// Qwen3-VL's are transposed, but their gates stand before the ups: for `stacks` kTransposed.
// Errors: kCorrupt, naming a tensor whose shape or type does not fit its neighbour.
Result<void> part_experts(ModelSource& source, ExpertStacks stacks);

// Returns whether the stacks of experts are transposed: those of Qwen3-VL's own folders are,
// those that transformers 5 writes are not.
struct ExpertShape {
  uint64_t model_dim, ffn_dim;
};
bool are_experts_transposed(const ModelSource& base, const ExpertShape& usual);

}  // namespace kvik::hf
