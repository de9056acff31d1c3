#pragma once

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Files from before 2024-04 hold a tensor for each expert of a layer ("blk.0.ffn_gate.3.weight").
// Makes each layer's one ("blk.0.ffn_gate_exps.weight", [n_experts, n_rows, n_cols]), as files have
// it since; any other source comes back as it is. Error: kCorrupt where experts are missing or not
// alike; it names the tensor.
Result<void> stack_gguf_experts(ModelSource& source);

}  // namespace kvik
