#pragma once

#include <cstring>

#include "tensor/encode/fit.h"
#include "tensor/half.h"

// K types: the scales of sub-blocks are small integers times an f16 unit per super-block. With two
// or three bits, rounding them independently costs as much as rounding the levels. Therefore
// integers and units are improved alternately: every sub-block tries the integers next to its own,
// then the units are refined by least squares over the super-block.
namespace kvik::encode {

// Lines of sixteen sub-blocks. All lanes of a super-block have the same units.
struct ScaledLines {
  Lanes scale_unit, minimum_unit;
  Lanes scales, minima;  // integers

  KVIK_LANES_INLINE Line line() const { return {scale_unit * scales, minimum_unit * minima}; }
};

struct ScaledScales {
  Lanes unit;
  Lanes scales;  // integers

  KVIK_LANES_INLINE Lanes scale() const { return unit * scales; }
};

// Returns the values rounded to f16.
KVIK_LANES_INLINE Lanes rounded_to_f16(Lanes values) {
  float numbers[kLanes];
  std::memcpy(numbers, &values, sizeof(numbers));
  for (float& number : numbers) number = f16_to_f32(f32_to_f16(number));
  std::memcpy(&values, numbers, sizeof(numbers));
  return values;
}

// Rounds a unit to f16. A unit that would become zero becomes the smallest subnormal number.
KVIK_LANES_INLINE Lanes to_unit(Lanes value) {
  const Lanes rounded = rounded_to_f16(value);
  const Lanes smallest = value < 0.0f ? splat(-0x1p-24f) : splat(0x1p-24f);
  return (rounded == 0.0f) & (value != 0.0f) ? smallest : rounded;
}

// Set every lane to the sum, or to the value of largest magnitude, of its super-block of n lanes.
KVIK_LANES_INLINE Lanes sum_over(Lanes values, int n) {
  float numbers[kLanes];
  std::memcpy(numbers, &values, sizeof(numbers));
  for (int first = 0; first < kLanes; first += n) {
    float sum = 0;
    for (int s = first; s < first + n; ++s) sum += numbers[s];
    for (int s = first; s < first + n; ++s) numbers[s] = sum;
  }
  std::memcpy(&values, numbers, sizeof(numbers));
  return values;
}
KVIK_LANES_INLINE Lanes peak_over(Lanes values, int n) {
  float numbers[kLanes];
  std::memcpy(numbers, &values, sizeof(numbers));
  for (int first = 0; first < kLanes; first += n) {
    float peak = 0;
    for (int s = first; s < first + n; ++s) {
      peak = __builtin_fabsf(numbers[s]) > __builtin_fabsf(peak) ? numbers[s] : peak;
    }
    for (int s = first; s < first + n; ++s) numbers[s] = peak;
  }
  std::memcpy(&values, numbers, sizeof(numbers));
  return values;
}

// Returns where `theirs` has less error than `ours`, summed over the super-block.
KVIK_LANES_INLINE LaneMask is_less_over(Lanes theirs, Lanes ours, int n) {
  return sum_over(theirs, n) < sum_over(ours, n);
}

// Tries the integers next to those of each sub-block, with the units unchanged.
template <int kValues>
KVIK_LANES_INLINE void try_neighbors(const SubBlocks<kValues>& s, float top, float scale_top,
                                     ScaledLines& best, Lanes& least) {
  const ScaledLines middle = best;
  for (int a = -1; a <= 1; ++a) {
    for (int b = -1; b <= 1; ++b) {
      if (a == 0 && b == 0) continue;
      ScaledLines other = middle;
      other.scales = nearest(middle.scales + static_cast<float>(a), 0, scale_top);
      other.minima = nearest(middle.minima + static_cast<float>(b), 0, scale_top);
      const Lanes error = error_of_line(s, other.line(), top);
      const LaneMask is_better = error < least;
      least = is_better ? error : least;
      best.scales = is_better ? other.scales : best.scales;
      best.minima = is_better ? other.minima : best.minima;
    }
  }
}

// Refines the units by least squares for given levels and integers.
template <int kValues>
KVIK_LANES_INLINE void refine_units(const SubBlocks<kValues>& s, float top, int n,
                                    ScaledLines& best, Lanes& least) {
  const Line line = best.line();
  const LevelSums q = sum_levels(s, divide(splat(1), line.scale), line.minimum, 0, top);
  const Lanes a = sum_over(q.wqq * best.scales * best.scales, n);
  const Lanes b = sum_over(q.wq * best.scales * best.minima, n);
  const Lanes c = sum_over(s.sum_w * best.minima * best.minima, n);
  const Lanes d = sum_over(q.wqx * best.scales, n);
  const Lanes e = sum_over(s.sum_wx * best.minima, n);
  // Σ w (u · scale · level − v · minimum − x)² is minimal where a u − b v = d and b u − c v = e.
  const Lanes det = a * c - b * b;
  const LaneMask is_flat = det <= a * c * 1e-6f;  // no or negligible minima
  ScaledLines refined = best;
  refined.scale_unit = is_flat ? divide(d, a) : divide(d * c - b * e, det);
  refined.minimum_unit = is_flat ? best.minimum_unit : divide(d * b - a * e, det);
  refined.scale_unit = rounded_to_f16(larger(refined.scale_unit, Lanes{}));
  refined.minimum_unit = rounded_to_f16(larger(refined.minimum_unit, Lanes{}));
  const Lanes error = error_of_line(s, refined.line(), top);
  const LaneMask is_better = is_less_over(error, least, n);
  least = is_better ? error : least;
  best.scale_unit = is_better ? refined.scale_unit : best.scale_unit;
  best.minimum_unit = is_better ? refined.minimum_unit : best.minimum_unit;
}

// Chooses units and integers for super-blocks of n sub-blocks. Scales and minima are integers from
// 0 to scale_top.
template <int kValues>
KVIK_LANES_INLINE ScaledLines choose_lines(const SubBlocks<kValues>& s, float top, float scale_top,
                                           int n, int n_rounds) {
  const Line fit = fit_line<Minimum::kNotNegative>(s, top, 8, 0.125f);
  ScaledLines best;
  best.scale_unit = to_unit(peak_over(fit.scale, n) / scale_top);
  best.minimum_unit = to_unit(peak_over(fit.minimum, n) / scale_top);
  best.scales = nearest(divide(fit.scale, best.scale_unit), 0, scale_top);
  best.minima = nearest(divide(fit.minimum, best.minimum_unit), 0, scale_top);
  Lanes least = error_of_line(s, best.line(), top);
  for (int round = 0; round < n_rounds; ++round) {
    try_neighbors(s, top, scale_top, best, least);
    refine_units(s, top, n, best, least);
  }
  return best;
}

// Chooses a unit and integers in [scales.low, scales.high]. All sixteen lanes are one super-block.
template <int kValues>
KVIK_LANES_INLINE ScaledScales choose_scales(const SubBlocks<kValues>& s, LevelRange range,
                                             LevelRange scales, int n_rounds) {
  const Lanes fit = fit_scale(s, range, 8, 0.125f);
  ScaledScales best;
  best.unit = to_unit(peak_over(fit, kLanes) / scales.low);
  best.scales = nearest(divide(fit, best.unit), scales.low, scales.high);
  Lanes least = error_of_scale(s, best.scale(), range);
  for (int round = 0; round < n_rounds; ++round) {
    const ScaledScales middle = best;
    for (const float a : {-1.0f, 1.0f}) {
      const Lanes other = nearest(middle.scales + a, scales.low, scales.high);
      const Lanes error = error_of_scale(s, middle.unit * other, range);
      const LaneMask is_better = error < least;
      least = is_better ? error : least;
      best.scales = is_better ? other : best.scales;
    }
    const LevelSums q =
        sum_levels(s, divide(splat(1), best.scale()), Lanes{}, range.low, range.high);
    const Lanes refined =
        rounded_to_f16(divide(sum_over(q.wqx * best.scales, kLanes),
                              sum_over(q.wqq * best.scales * best.scales, kLanes)));
    const Lanes error = error_of_scale(s, refined * best.scales, range);
    const LaneMask is_better = is_less_over(error, least, kLanes);
    least = is_better ? error : least;
    best.unit = is_better ? refined : best.unit;
  }
  return best;
}

}  // namespace kvik::encode
