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

// Tensors of recurrent layers. Folders and GGUF files differ in order and form: value heads that
// share a key head are adjacent in folders, but in GGUF files of some families n_key_heads apart;
// folders store the logarithm of the decay's factor; q, k, v and gate may be one tensor.

// q, k, v and the gate in one tensor.
inline constexpr std::string_view kQkvzName = "linear_attn.in_proj_qkvz.weight";

// Consecutive rows of a folder's tensor.
struct RowStretch {
  uint64_t first, n;
};

// Returns the rows (for kStateOutput the columns) of the folder's tensor in the order of a GGUF
// file; empty if both orders are equal.
std::vector<RowStretch> rows_of_state(TensorRole role, const DeltaConfig& config);

// Returns the rows of q, k and v (kQkv), or of the gate (kStateGate), in a folder's tensor of all
// four.
std::vector<RowStretch> rows_in_qkvz(TensorRole role, const DeltaConfig& config);

// Makes a tensor of that role from the folder's own. Errors: kCorrupt for an impossible shape.
Result<ArrangedTensor> state_tensor(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const DeltaConfig& config);

// Makes q, k and v, or the gate, from a tensor with all four of each key head in turn.
Result<ArrangedTensor> part_of_qkvz(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const DeltaConfig& config);

}  // namespace kvik::hf
