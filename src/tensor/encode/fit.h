#pragma once

#include "tensor/block_format.h"
#include "tensor/encode/lanes.h"

// Fits a scale, or scale and minimum, for sixteen sub-blocks at a time: a grid of candidates, each
// refined by least squares, of which the one with the least error is taken. Errors are Σ w ·
// (decoded − x)².
namespace kvik::encode {

// Value i of sub-block s is x[i][s], with weight w[i][s] ≥ 0.
template <int kValues>
struct SubBlocks {
  Lanes x[kValues], w[kValues];
  Lanes sum_w, sum_wx, sum_wxx;

  KVIK_LANES_INLINE void add_up() {
    sum_w = sum_wx = sum_wxx = Lanes{};
    for (int i = 0; i < kValues; ++i) {
      sum_w += w[i];
      sum_wx += w[i] * x[i];
      sum_wxx += w[i] * x[i] * x[i];
    }
  }
};

// Weighted sums over the levels q that an inverse scale gives: Σ w q, Σ w q² and Σ w q x.
struct LevelSums {
  Lanes wq, wqq, wqx;
};

// x ≈ scale · level − minimum, levels 0 … top.
struct Line {
  Lanes scale, minimum;
};

template <int kValues>
KVIK_LANES_INLINE Lanes error_of_line(const SubBlocks<kValues>& s, const Line& line, float top) {
  const Lanes inverse = divide(splat(1), line.scale);
  Lanes error = {};
  for (int i = 0; i < kValues; ++i) {
    const Lanes level = nearest((s.x[i] + line.minimum) * inverse, 0, top);
    const Lanes difference = (line.scale * level - line.minimum) - s.x[i];
    error += s.w[i] * difference * difference;
  }
  return error;
}

template <int kValues>
KVIK_LANES_INLINE Lanes error_of_scale(const SubBlocks<kValues>& s, Lanes scale, LevelRange range) {
  const Lanes inverse = divide(splat(1), scale);
  Lanes error = {};
  for (int i = 0; i < kValues; ++i) {
    const Lanes level = nearest(s.x[i] * inverse, range.low, range.high);
    const Lanes difference = scale * level - s.x[i];
    error += s.w[i] * difference * difference;
  }
  return error;
}

// Selects whether a minimum may be negative, so that all decoded values are positive.
enum class Minimum { kNotNegative, kAny };

template <int kValues>
KVIK_LANES_INLINE LevelSums sum_levels(const SubBlocks<kValues>& s, Lanes inverse, Lanes offset,
                                       float low, float high) {
  LevelSums sums{};
  for (int i = 0; i < kValues; ++i) {
    const Lanes level = nearest((s.x[i] + offset) * inverse, low, high);
    const Lanes weighted = s.w[i] * level;
    sums.wq += weighted;
    sums.wqq += weighted * level;
    sums.wqx += weighted * s.x[i];
  }
  return sums;
}

// Returns the least-squares line for the summed levels. It goes through zero if the levels do not
// determine a line, or if the minimum would be negative and may not be.
template <Minimum kMinimum, int kValues>
KVIK_LANES_INLINE Line refined_line(const SubBlocks<kValues>& s, const LevelSums& q) {
  const Lanes det = s.sum_w * q.wqq - q.wq * q.wq;
  Line line{divide(s.sum_w * q.wqx - s.sum_wx * q.wq, det),
            divide(q.wq * q.wqx - q.wqq * s.sum_wx, det)};
  LaneMask through_zero = det <= 0.0f;
  if constexpr (kMinimum == Minimum::kNotNegative) through_zero |= line.minimum < 0.0f;
  line.scale = through_zero ? divide(q.wqx, q.wqq) : line.scale;
  line.minimum = through_zero ? Lanes{} : line.minimum;
  return line;
}

// Returns the line with the least error among the line that spans all values and n_steps candidates
// on each side of it.
template <Minimum kMinimum, int kValues>
KVIK_LANES_INLINE Line fit_line(const SubBlocks<kValues>& s, float top, int n_steps, float step) {
  Lanes low = s.x[0], high = s.x[0];
  for (int i = 1; i < kValues; ++i) {
    low = smaller(low, s.x[i]);
    high = larger(high, s.x[i]);
  }
  if constexpr (kMinimum == Minimum::kNotNegative) low = smaller(low, Lanes{});
  const Lanes width = high - low;
  Line best{divide(width, splat(top)), -low};
  Lanes least = error_of_line(s, best, top) - s.sum_wxx;
  for (int i = -n_steps; i <= n_steps; ++i) {
    const Lanes inverse = divide(splat(top + step * static_cast<float>(i)), width);
    const LevelSums q = sum_levels(s, inverse, -low, 0, top);
    const Line line = refined_line<kMinimum>(s, q);
    // Σ w (scale · q − minimum − x)² without constant terms.
    const Lanes error = line.scale * (line.scale * q.wqq - 2.0f * (q.wqx + line.minimum * q.wq)) +
                        line.minimum * (line.minimum * s.sum_w + 2.0f * s.sum_wx);
    const LaneMask is_better = error < least;
    least = is_better ? error : least;
    best.scale = is_better ? line.scale : best.scale;
    best.minimum = is_better ? line.minimum : best.minimum;
  }
  return best;
}

// Returns the value of largest magnitude, with its sign.
template <int kValues>
KVIK_LANES_INLINE Lanes peak_of(const SubBlocks<kValues>& s) {
  Lanes peak = s.x[0];
  for (int i = 1; i < kValues; ++i) {
    peak = magnitude(s.x[i]) > magnitude(peak) ? s.x[i] : peak;
  }
  return peak;
}

// Returns the scale with the least error among the scale that maps the peak to the outermost level
// and n_steps candidates on each side of it. If the range is not symmetric, both signs are tried.
template <int kValues>
KVIK_LANES_INLINE Lanes fit_scale(const SubBlocks<kValues>& s, LevelRange range, int n_steps,
                                  float step) {
  const Lanes peak = peak_of(s);
  Lanes best = divide(peak, splat(range.low));
  Lanes least = error_of_scale(s, best, range) - s.sum_wxx;
  const int n_ends = -range.low == range.high ? 1 : 2;
  for (int end = 0; end < n_ends; ++end) {
    const float outermost = end == 0 ? range.low : range.high;
    for (int i = -n_steps; i <= n_steps; ++i) {
      const float bound = outermost + (end == 0 ? -step : step) * static_cast<float>(i);
      const LevelSums q = sum_levels(s, divide(splat(bound), peak), Lanes{}, range.low, range.high);
      const Lanes scale = divide(q.wqx, q.wqq);
      const Lanes error = -scale * q.wqx;  // Σ w (scale · q − x)² without constant terms
      const LaneMask is_better = error < least;
      least = is_better ? error : least;
      best = is_better ? scale : best;
    }
  }
  return best;
}

}  // namespace kvik::encode
