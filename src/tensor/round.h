#pragma once

#include <span>

#include "tensor/block_format.h"

// Rounds one block of values to the numbers of a format by the plain definitions, for synthetic
// weights; encode/ is for real weights. tools/oracle/k_quants.py and small_quants.py give the same
// bytes: every sum runs in ascending order.
namespace kvik {

using Values = std::span<const float>;

// Rounds to scale · (level − zero). The scale maps the value of largest magnitude, the peak, to
// level 0.
void round_around_zero(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to 8 bits: as above, but the scale maps the magnitude of the peak to 127. Levels have
// offset 128.
void round_to_bytes(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to the levels of the table. The scale maps the peak to the first level.
void round_to_table(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to kFp4Levels. The scale is the power of two that maps the peak to [8, 16), where the
// highest level is 12 (OCP's microscaling).
void round_to_fp4(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to kFp4Levels. An E4M3 scale per sixteen values maps their peak as closely as possible to
// level 12.
void round_to_nvfp4(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to scale · level + minimum. The smallest value has level 0, and the largest the highest
// level.
void round_above_minimum(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to scale · (level − zero). The range of the values, which is extended to contain 0, spans
// all levels; `zero` is an integer.
void round_group(const BlockFormat& format, Values x, BlockNumbers& numbers);

// Round super-blocks. In round_peaks(), the levels of each sub-block cover its peak; in
// round_spans(), they cover the range from its smallest value, or 0 if that is less, to its
// largest.
void round_peaks(const BlockFormat& format, Values x, BlockNumbers& numbers);
void round_spans(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Round super-blocks with the best of nine scales, or of nine scales and minima, for each sub-block
// by squared error.
void round_fitted_scales(const BlockFormat& format, Values x, BlockNumbers& numbers);
void round_fitted_lines(const BlockFormat& format, Values x, BlockNumbers& numbers);

// Rounds to the points of the format's codebook. The levels of each sub-block cover its peak. Each
// value gets its nearest digit, and each point number the nearest point. If the number of negative
// values must be even, the smallest of eight changes its sign if need be. Values are shifted down
// if their sum is negative.
void round_to_codes(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to −1, 0 and 1 times the peak.
void round_to_signs(const BlockFormat& format, Values x, BlockNumbers& numbers);

// Codebook::near_points of each grid.
const uint16_t* near_iq3_xxs();
const uint16_t* near_iq3_s();
const uint16_t* near_iq2_xxs();
const uint16_t* near_iq2_xs();
const uint16_t* near_iq2_s();
const uint16_t* near_iq1();

// The levels of iq4_nl and iq4_xs (ggml's kvalues_iq4nl), denser around zero.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

// Twice the 4-bit numbers (E2M1) of MXFP4; the first bit is the sign.
inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace kvik
