#pragma once

#include <cstdint>

#include "backend/ops/rows.h"

namespace kvik::cpu {

// Backend::stream_weights() of one row of shape.n_cols() numbers, in place.
void compute_stream_weights(const StreamWeightShape& shape, float* row);

// x = min(x, most)
void limit_row(float* x, float most, uint32_t n);

// Returns the gate of Backend::head_gates() for x · y of vectors of `dim` numbers.
float head_gate(double product, uint32_t dim);

}  // namespace kvik::cpu
