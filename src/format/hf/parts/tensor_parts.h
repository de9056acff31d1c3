#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "catalogue/tensor_roles.h"
#include "format/arranged_tensors.h"
#include "format/model_source.h"

namespace kvik::hf {

// Parts of tensors that folders store together. Errors: kCorrupt for a tensor of another shape.

// Returns the gate or up half, by the role, of [n_experts, 2 · n_rows, n_cols] or of one such
// matrix.
Result<ArrangedTensor> gate_or_up_half(const ModelSource& source, size_t index,
                                       const TensorSpec& spec);

// Returns the experts' biases of gate, up or down. Those of gate precede those of up.
Result<ArrangedTensor> expert_biases(const ModelSource& source, size_t index,
                                     const TensorSpec& spec);

// Returns rows of a matrix, as many as `spec` has.
struct RowsInTensor {
  uint64_t first = 0;
  uint64_t n_all = 0;  // rows of the matrix
};
Result<ArrangedTensor> rows_of_tensor(const ModelSource& source, size_t index,
                                      const TensorSpec& spec, RowsInTensor rows);

// Returns the matrix whose rows are those of two others, one after the other.
Result<ArrangedTensor> columns_of_both(const ModelSource& source, size_t left, size_t right,
                                       const TensorSpec& spec);

// Returns the factors of a model's own adapters after those of an adapter that changes nothing, as
// GGUF files have them: [n, 1, rows, columns] of a folder, as f32. Rows of those of Q and K are
// paired (Arrangement::kPairedRows).
Result<ArrangedTensor> lora_factors(const ModelSource& source, size_t index, const TensorSpec& spec,
                                    const AttentionConfig& attention);

// Pairs the rows of Q and K, and not those of V, in a tensor of all three.
void pair_query_rows(const AttentionConfig& attention, ArrangedTensor& tensor);

}  // namespace kvik::hf
