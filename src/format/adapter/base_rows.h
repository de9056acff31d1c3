#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// Returns rows [first, first + n) of a tensor as f32, [n, n_cols]. Rows are counted over all
// matrices of a stack, and columns are in the order of the inputs. The bytes read stay valid until
// the tensor is released. Errors: those of reading, kUnsupported for an unsupported element type.
Result<std::vector<float>> base_rows(TensorSource& base, size_t index, uint64_t first, uint64_t n);

// Adds rows of scale · b · a to the rows [first_row, first_row + n) of a matrix, [n, n_cols]. Sums
// are computed in f64.
void add_low_rank(const AdapterPair& pair, const LowRankFactors& factors, uint64_t first_row,
                  std::span<float> rows);

// Returns the factor that DoRA applies to a row of W + scale · b · a: the stored magnitude divided
// by the length of the row (Liu et al. 2024), or 0 for a row of zeros.
float dora_scale(float magnitude, std::span<const float> row);

// Returns dora_scale() of each row of the updated matrix, [n_rows]. W is read from the base model
// and dequantized. Errors: those of base_rows(), kInvalidArgument if the base model has no such
// tensor or one of another shape.
Result<std::vector<float>> dora_scales(const AdapterPair& pair, const LowRankFactors& factors,
                                       ModelSource& base);

}  // namespace kvik
