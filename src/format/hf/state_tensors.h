#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalogue/model_config.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"

namespace kvik::hf {

// Tensors of recurrent layers, whose rows and values folders have in another order and another form
// than GGUF files: value heads that share a key head are neighbours there and, in GGUF files of
// some families, lie as far apart as there are key heads; the decay's factor is its logarithm; q,
// k, v and gate may be one tensor.

// q, k, v and the gate in one tensor.
inline constexpr std::string_view kQkvzName = "linear_attn.in_proj_qkvz.weight";

// Rows of a folder's tensor that follow each other.
struct RowStretch {
  uint64_t first, n;
};

// The rows, or of kStateOutput the columns, of the folder's own tensor of that role in the order of
// a GGUF file; empty where both have one order.
std::vector<RowStretch> rows_of_state(TensorRole role, const DeltaConfig& config);

// The rows of q, k and v (kQkv), or of the gate (kStateGate), in a folder's tensor of all four.
std::vector<RowStretch> rows_in_qkvz(TensorRole role, const DeltaConfig& config);

// A tensor of that role out of the folder's own. Errors: kCorrupt for a shape that it cannot have.
Result<ArrangedTensor> state_tensor(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const DeltaConfig& config);

// q, k and v, or the gate, out of one tensor that has all four of each key head in turn.
Result<ArrangedTensor> part_of_qkvz(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const DeltaConfig& config);

}  // namespace kvik::hf
