#pragma once

#include <span>

#include "tensor/block_format.h"

// One block of values to the numbers of a format: the plain definitions, for weights that are made
// up; encode/ is for weights that matter. tools/oracle/k_quants.py and small_quants.py give the
// same bytes: every sum runs in ascending order.
namespace kvik {

using Values = std::span<const float>;

// scale · (level − zero): a scale that reaches the block's peak, which becomes level 0 …
void round_around_zero(const BlockFormat& format, Values x, BlockNumbers& numbers);
// … or ±127, counted from 128;
void round_to_bytes(const BlockFormat& format, Values x, BlockNumbers& numbers);
// … or the first of the table's.
void round_to_table(const BlockFormat& format, Values x, BlockNumbers& numbers);
// A power of two by which the peak becomes a level from 8 to 12, of kFp4Levels (OCP's
// microscaling).
void round_to_fp4(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Scales in E4M3 by which the peaks of sixteen values become level 12 of kFp4Levels, as nearly as
// they can.
void round_to_nvfp4(const BlockFormat& format, Values x, BlockNumbers& numbers);
// From the least value, level 0, to the greatest, the top.
void round_above_minimum(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Likewise with zero between the two, and an integer.
void round_group(const BlockFormat& format, Values x, BlockNumbers& numbers);

// Sub-blocks of which each reaches its peak, or from its least value, or zero, to its greatest.
void round_peaks(const BlockFormat& format, Values x, BlockNumbers& numbers);
void round_spans(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Sub-blocks with the best of nine scales, or of nine scales and minima, by squared error.
void round_fitted_scales(const BlockFormat& format, Values x, BlockNumbers& numbers);
void round_fitted_lines(const BlockFormat& format, Values x, BlockNumbers& numbers);

// The levels of iq4_nl and iq4_xs (ggml's kvalues_iq4nl), denser around zero.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// Twice the numbers of 4 bits that MXFP4 has (E2M1); the first bit is the sign.
inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace kvik
