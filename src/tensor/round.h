#pragma once

#include <span>

#include "tensor/block_format.h"

// Rounds one block of values to the numbers of a format by the plain definitions, for synthetic
// weights; encode/ is for real weights. tools/oracle/k_quants.py and small_quants.py give the same
// bytes: every sum runs in ascending order.
namespace kvik {

using Values = std::span<const float>;

// scale · (level − zero), with the scale that maps the block's peak to level 0 …
void round_around_zero(const BlockFormat& format, Values x, BlockNumbers& numbers);
// … or to ±127, with offset 128;
void round_to_bytes(const BlockFormat& format, Values x, BlockNumbers& numbers);
// … or to the first level of the table.
void round_to_table(const BlockFormat& format, Values x, BlockNumbers& numbers);
// A power of two that maps the peak to a level from 8 to 12 of kFp4Levels (OCP's microscaling).
void round_to_fp4(const BlockFormat& format, Values x, BlockNumbers& numbers);
// E4M3 scales that map the peaks of sixteen values to level 12 of kFp4Levels as closely as
// possible.
void round_to_nvfp4(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Maps the smallest value to level 0 and the largest to the highest level.
void round_above_minimum(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Likewise, with an integer zero point between the two.
void round_group(const BlockFormat& format, Values x, BlockNumbers& numbers);

// Sub-blocks of which each covers its peak, or the range from its smallest value, or zero, to its
// largest.
void round_peaks(const BlockFormat& format, Values x, BlockNumbers& numbers);
void round_spans(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Sub-blocks with the best of nine scales, or of nine scales and minima, by squared error.
void round_fitted_scales(const BlockFormat& format, Values x, BlockNumbers& numbers);
void round_fitted_lines(const BlockFormat& format, Values x, BlockNumbers& numbers);

// The levels of iq4_nl and iq4_xs (ggml's kvalues_iq4nl), denser around zero.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// Twice the 4-bit numbers (E2M1) of MXFP4; the first bit is the sign.
inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace kvik
