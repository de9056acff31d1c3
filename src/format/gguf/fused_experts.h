#pragma once

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Splits tensors of gate and up projections of a layer's experts ("blk.0.ffn_gate_up_exps.weight",
// [n_experts, 2 · n_rows, n_cols]) into the usual two without copying. Errors: kCorrupt for a shape
// without halves, naming the tensor.
Result<void> part_gguf_experts(ModelSource& source);

}  // namespace kvik
