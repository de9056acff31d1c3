#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/adapter/adapter_source.h"
#include "format/model_source.h"

namespace kvik {

// Returns rows [first, first + n) of a tensor of a model as f32, counted over all matrices of a
// stack, with their columns in the order of the inputs. What was read stays until the tensor is
// released. Errors: those of reading, kUnsupported for an element type that cannot be read.
Result<std::vector<float>> base_rows(TensorSource& base, size_t index, uint64_t first, uint64_t n);

// Adds scale · b · a to some rows of a matrix, [n, n_cols]; the sums are taken in f64.
void add_low_rank(const AdapterPair& pair, const LowRankFactors& factors, uint64_t first_row,
                  std::span<float> rows);

// Returns what DoRA multiplies a row of W + scale · b · a by: its magnitude over its length (Liu et
// al. 2024), or 0 for a row of zeros.
float dora_scale(float magnitude, std::span<const float> row);

// Returns dora_scale() of each row of a matrix, whose W is read from the base, dequantized. Errors:
// those of base_rows(), kInvalidArgument where the base has no such tensor, or one of another
// shape.
Result<std::vector<float>> dora_scales(const AdapterPair& pair, const LowRankFactors& factors,
                                       ModelSource& base);

}  // namespace kvik
