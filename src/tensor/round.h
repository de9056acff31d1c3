#pragma once

#include <span>

#include "tensor/block_format.h"
#include "tensor/level_tables.h"

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
// Rounds to kSignLevels: the scale is the mean magnitude.
void round_to_mean(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Rounds to scale · (level − zero). The scale maps the peak to the highest level.
void round_below_peak(const BlockFormat& format, Values x, BlockNumbers& numbers);
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
// Rounds super-blocks to the levels of a table, which is shifted where the sum of a sub-block is
// negative. The first level of each sub-block reaches its peak.
// With a scale per row, the row's scale must be set.
void round_to_shifted_table(const BlockFormat& format, Values x, BlockNumbers& numbers);
// The same for pairs of levels, of which the nearest is taken.
void round_to_pairs(const BlockFormat& format, Values x, BlockNumbers& numbers);
// Returns the scale for which the factor of the sub-block with the largest peak is the lowest.
float unit_of_shifted_table(const BlockFormat& format, Values x);
// Rounds to −1, 0 and 1 times the peak.
void round_to_signs(const BlockFormat& format, Values x, BlockNumbers& numbers);

// Codebook::near_points of each grid.
const uint16_t* near_iq3_xxs();
const uint16_t* near_iq3_s();
const uint16_t* near_iq2_xxs();
const uint16_t* near_iq2_xs();
const uint16_t* near_iq2_s();
const uint16_t* near_iq1();

// The levels of q1_0.
inline constexpr int8_t kSignLevels[2] = {-1, 1};

// Twice the 4-bit numbers (E2M1) of MXFP4; the first bit is the sign.
inline constexpr int8_t kFp4Levels[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

}  // namespace kvik
