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

// Tensors of gated-delta-rule layers, which folders and GGUF files store differently. Value heads
// that share a key head are adjacent in folders, but n_key_heads apart in GGUF files of some
// families. Folders store the logarithm of the factor of the decay. In folders, q, k, v and the
// gate may be one tensor.

// Name of the tensor that contains q, k, v and the gate of each key head in turn.
inline constexpr std::string_view kQkvzName = "linear_attn.in_proj_qkvz.weight";

// Consecutive rows of a folder's tensor.
struct RowRange {
  uint64_t first, n;
};

// Returns the rows (for kStateOutput the columns) of the folder's tensor in the order of a GGUF
// file; empty if both orders are equal.
std::vector<RowRange> rows_of_state(TensorRole role, const DeltaConfig& config);

// Returns the rows of q, k and v (kQkv), or of the gate (kOutputGate), in a folder's tensor of all
// four.
std::vector<RowRange> rows_in_qkvz(TensorRole role, const DeltaConfig& config);

// Makes a tensor of that role from the folder's own. Errors: kCorrupt for an impossible shape,
// kUnsupported if the columns cannot be put into the order of value heads.
Result<ArrangedTensor> state_tensor(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const DeltaConfig& config);

// Makes q, k and v (kQkv), or the gate (kOutputGate), from the tensor kQkvzName. Errors: kCorrupt
// for another shape.
Result<ArrangedTensor> split_qkvz(const ModelSource& source, size_t index, const TensorSpec& spec,
                                  const DeltaConfig& config);

}  // namespace kvik::hf
