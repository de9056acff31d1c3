#pragma once

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Stacks the tensors of a layer's experts. Files from before 2024-04 have a tensor per expert
// ("blk.0.ffn_gate.3.weight"), later ones a tensor per layer ("blk.0.ffn_gate_exps.weight",
// [n_experts, n_rows, n_cols]). A source without separate experts is unchanged. Errors: kCorrupt if
// experts are missing or differ, naming the tensor.
Result<void> stack_gguf_experts(ModelSource& source);

}  // namespace kvik
