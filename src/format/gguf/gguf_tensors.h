#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "format/gguf/gguf_cursor.h"
#include "tensor/tensor_view.h"

namespace kvik {

// The tensor table of a GGUF header. offsets[i] of infos[i] is relative to the beginning of the
// tensor data.
struct GgufTensorTable {
  std::vector<TensorInfo> infos;
  std::vector<uint64_t> offsets;
};

// Reads `n_tensors` entries. Errors name the tensor: an impossible count, an empty or repeated
// name, a number of axes other than 1 to 4, an axis of 0 or more than 2^42, a size that overflows,
// a last axis that is not a multiple of the block (kCorrupt), an unknown element type
// (kUnsupported).
Result<GgufTensorTable> read_gguf_tensor_table(GgufCursor& in, uint64_t n_tensors);

// Checks that every tensor begins at a multiple of `alignment`, is within the `data_bytes` of
// tensor data, and overlaps no other.
Result<void> check_gguf_placement(const GgufTensorTable& table, uint64_t alignment,
                                  uint64_t data_bytes);

}  // namespace kvik
