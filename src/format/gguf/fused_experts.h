#pragma once

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Splits fused gate and up projections of experts ("blk.0.ffn_gate_up_exps.weight", [n_experts, 2 ·
// n_rows, n_cols]) into two tensors without copying. A source without such tensors is unchanged.
// Errors: kCorrupt, naming the tensor, for another number of axes or an odd number of rows.
Result<void> split_gguf_experts(ModelSource& source);

}  // namespace kvik
