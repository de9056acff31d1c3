#pragma once

#include "base/result.h"
#include "format/model_source.h"

namespace kvik {

// Some files hold the gates of a layer's experts over their ups in one tensor
// ("blk.0.ffn_gate_up_exps.weight", [n_experts, 2 · n_rows, n_cols]). Makes the usual two of it,
// whose bytes stay where they are; any other source comes back as it is. Error: kCorrupt for a
// shape that has no halves; it names the tensor.
Result<void> part_gguf_experts(ModelSource& source);

}  // namespace kvik
