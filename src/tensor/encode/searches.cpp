#include "tensor/encode/fit.h"
#include "tensor/encode/levels.h"
#include "tensor/encode/search.h"
#include "tensor/encode/search_lanes.h"
#include "tensor/encode/super_blocks.h"
#include "tensor/half.h"
#include "tensor/round.h"

namespace kvik {
namespace encode {
namespace {

// Rounds a scale to f16, and refines it by least squares for the resulting levels.
template <int kValues>
KVIK_LANES_INLINE Lanes round_and_refine_scale(const SubBlocks<kValues>& s, Lanes scale,
                                               LevelRange range) {
  scale = rounded_to_f16(scale);
  const LevelSums q = sum_levels(s, divide(splat(1), scale), Lanes{}, range.low, range.high);
  const Lanes refined = rounded_to_f16(divide(q.wqx, q.wqq));
  return error_of_scale(s, refined, range) < error_of_scale(s, scale, range) ? refined : scale;
}

template <int kValues>
KVIK_LANES_INLINE void search_scale(const SearchTask& task) {
  const SubBlocks<kValues> s = sub_blocks<kValues>(task);
  const Encoding& how = task.format.encoding;
  const Lanes scale =
      round_and_refine_scale(s, fit_scale(s, how.levels, how.n_steps, how.step), how.levels);
  const int lowest = task.format.zero + static_cast<int>(how.levels.low);
  put_levels(levels_of_scale(s, scale, how.levels), lowest, 1, task.out);
  for (int b = 0; b < kLanes; ++b) task.out[b].scale = f32_to_f16(scale[b]);
}

// The weighted mean magnitude is the scale with the least error.
KVIK_LANES_INLINE void search_bits(const SearchTask& task) {
  const SubBlocks<128> s = sub_blocks<128>(task);
  Lanes sum = {};
  LevelsOf<128> levels;
  for (int i = 0; i < 128; ++i) {
    sum += s.w[i] * magnitude(s.x[i]);
    levels.set(i, s.x[i] < 0.0f ? Lanes{} : splat(1));
  }
  const Lanes scale = divide(sum, s.sum_w);
  put_levels(levels, 0, 1, task.out);
  for (int b = 0; b < kLanes; ++b) task.out[b].scale = f32_to_f16(scale[b]);
}

// Returns a line with f16 scale and minimum of any sign.
KVIK_LANES_INLINE Line free_line(const SubBlocks<32>& s, float top) {
  const Line fit = fit_line<Minimum::kAny>(s, top, 8, 0.125f);
  const Line line{rounded_to_f16(fit.scale), rounded_to_f16(fit.minimum)};
  const LevelSums q = sum_levels(s, divide(splat(1), line.scale), line.minimum, 0, top);
  const Line refined = refined_line<Minimum::kAny>(s, q);
  const Line other{rounded_to_f16(refined.scale), rounded_to_f16(refined.minimum)};
  const LaneMask is_better = error_of_line(s, other, top) < error_of_line(s, line, top);
  return {is_better ? other.scale : line.scale, is_better ? other.minimum : line.minimum};
}

KVIK_LANES_INLINE void search_line(const SearchTask& task) {
  const SubBlocks<32> s = sub_blocks<32>(task);
  const Line line = free_line(s, task.format.top);
  put_levels(levels_of_line(s, line, task.format.top), 0, 1, task.out);
  for (int b = 0; b < kLanes; ++b) {
    task.out[b].scale = f32_to_f16(line.scale[b]);
    task.out[b].minimum = f32_to_f16(-line.minimum[b]);
  }
}

// The nearest level of kIq4Levels and its index.
struct NearestIq4 {
  Lanes level, number;
};
KVIK_LANES_INLINE NearestIq4 nearest_iq4(Lanes value) {
  NearestIq4 out{splat(kIq4Levels[0]), Lanes{}};
  for (int k = 1; k < 16; ++k) {
    const float middle = 0.5f * static_cast<float>(kIq4Levels[k - 1] + kIq4Levels[k]);
    const LaneMask is_above = value > middle;
    out.level = is_above ? splat(kIq4Levels[k]) : out.level;
    out.number += is_above ? splat(1) : Lanes{};
  }
  return out;
}

struct Trial {
  Lanes scale, error;
};
// Returns the least-squares f16 scale for the levels that `inverse` gives, and its error.
KVIK_LANES_INLINE Trial refine_for_table(const SubBlocks<32>& s, Lanes inverse) {
  Lanes wqq = {}, wqx = {};
  for (int i = 0; i < 32; ++i) {
    const Lanes level = nearest_iq4(s.x[i] * inverse).level;
    wqq += s.w[i] * level * level;
    wqx += s.w[i] * level * s.x[i];
  }
  Trial out{rounded_to_f16(divide(wqx, wqq)), Lanes{}};
  const Lanes again = divide(splat(1), out.scale);
  for (int i = 0; i < 32; ++i) {
    const Lanes difference = out.scale * nearest_iq4(s.x[i] * again).level - s.x[i];
    out.error += s.w[i] * difference * difference;
  }
  return out;
}

KVIK_LANES_INLINE void search_table(const SearchTask& task) {
  constexpr float kEnds[] = {kIq4Levels[0], kIq4Levels[15]};
  constexpr int kSteps = 7;
  const SubBlocks<32> s = sub_blocks<32>(task);
  const Lanes peak = peak_of(s);
  Trial best = refine_for_table(s, divide(splat(kEnds[0]), peak));
  for (const float end : kEnds) {
    for (int i = -kSteps; i <= kSteps; ++i) {
      const float bound = end * (1.0f + 0.02f * static_cast<float>(i));
      const Trial trial = refine_for_table(s, divide(splat(bound), peak));
      const LaneMask is_better = trial.error < best.error;
      best.error = is_better ? trial.error : best.error;
      best.scale = is_better ? trial.scale : best.scale;
    }
  }
  LevelsOf<32> levels;
  const Lanes inverse = divide(splat(1), best.scale);
  for (int i = 0; i < 32; ++i) levels.set(i, nearest_iq4(s.x[i] * inverse).number);
  put_levels(levels, 0, 1, task.out);
  for (int b = 0; b < kLanes; ++b) task.out[b].scale = f32_to_f16(best.scale[b]);
}

// The nearest level of kFp4Levels and its index.
struct NearestFp4 {
  Lanes level, number;
};
KVIK_LANES_INLINE NearestFp4 nearest_fp4(Lanes value) {
  const Lanes size = magnitude(value);
  NearestFp4 out{Lanes{}, Lanes{}};
  for (int k = 1; k < 8; ++k) {
    const float middle = 0.5f * static_cast<float>(kFp4Levels[k - 1] + kFp4Levels[k]);
    const LaneMask is_above = size > middle;
    out.level = is_above ? splat(kFp4Levels[k]) : out.level;
    out.number += is_above ? splat(1) : Lanes{};
  }
  const LaneMask is_below = (value < 0.0f) & (out.number > 0.0f);
  out.level = is_below ? -out.level : out.level;
  out.number += is_below ? splat(8) : Lanes{};
  return out;
}

KVIK_LANES_INLINE Lanes power_of_bits(LaneMask exponent) {
  const LaneMask bits = exponent << 23;
  return (Lanes)bits;  // reinterprets the bits
}

// Return 2^(exponent − 128) and its inverse, for exponents from 2 to 254.
KVIK_LANES_INLINE Lanes scale_of_exponent(LaneMask exponent) { return power_of_bits(exponent - 1); }
KVIK_LANES_INLINE Lanes inverse_of_exponent(LaneMask exponent) {
  return power_of_bits(255 - exponent);
}

// Tries the power of two that maps the peak to [8, 16), where the highest level is 12, and its
// neighbors.
KVIK_LANES_INLINE void search_fp4(const SearchTask& task) {
  const SubBlocks<32> s = sub_blocks<32>(task);
  const Lanes peak = magnitude(peak_of(s));
  const LaneMask of_peak = ((LaneMask)peak >> 23) - 2;
  LaneMask best = {};
  Lanes least = {};
  for (int beside = -1; beside <= 1; ++beside) {
    LaneMask exponent = of_peak + beside;
    exponent = exponent < 2 ? (LaneMask{} + 2) : exponent;
    exponent = exponent > 254 ? (LaneMask{} + 254) : exponent;
    const Lanes scale = scale_of_exponent(exponent);
    const Lanes inverse = inverse_of_exponent(exponent);
    Lanes error = {};
    for (int i = 0; i < 32; ++i) {
      const Lanes difference = scale * nearest_fp4(s.x[i] * inverse).level - s.x[i];
      error += s.w[i] * difference * difference;
    }
    const LaneMask is_better = beside < 0 ? ~LaneMask{} : error < least;
    least = is_better ? error : least;
    best = is_better ? exponent : best;
  }
  LevelsOf<32> levels;
  const Lanes inverse = inverse_of_exponent(best);
  for (int i = 0; i < 32; ++i) levels.set(i, nearest_fp4(s.x[i] * inverse).number);
  put_levels(levels, 0, 1, task.out);
  for (int b = 0; b < kLanes; ++b) task.out[b].scale = static_cast<uint16_t>(best[b]);
}

// Returns the value of E4M3 bits from 0 to 126.
KVIK_LANES_INLINE Lanes number_of_e4m3(LaneMask bits) {
  const Lanes small = __builtin_convertvector(bits, Lanes) * 0x1p-9f;
  const LaneMask is_normal = bits >= 8;
  return is_normal ? (Lanes)((bits + (120 << 3)) << 20) : small;
}

// Tries the E4M3 scales around the one that maps the peak to the largest level: six above it,
// because some blocks are better off with the next level, and three below, which clip the peak.
KVIK_LANES_INLINE void search_nvfp4(const SearchTask& task) {
  const SubBlocks<16> s = sub_blocks<16>(task);
  const Lanes at_peak = magnitude(peak_of(s)) * (1.0f / 6.0f);
  const LaneMask is_normal = at_peak >= 0x1p-6f;
  const Lanes small = smaller(at_peak, splat(1)) * 512.0f;
  const LaneMask of_peak =
      is_normal ? ((LaneMask)at_peak >> 20) - (120 << 3) : __builtin_convertvector(small, LaneMask);
  LaneMask best = {};
  Lanes least = s.sum_wxx;
  for (int beside = -3; beside <= 6; ++beside) {
    LaneMask bits = of_peak + beside;
    bits = bits < 0 ? LaneMask{} : bits;
    bits = bits > 126 ? (LaneMask{} + 126) : bits;
    const Lanes scale = number_of_e4m3(bits) * 0.5f;
    const Lanes inverse = divide(splat(1), scale);
    Lanes error = {};
    for (int i = 0; i < 16; ++i) {
      const Lanes difference = scale * nearest_fp4(s.x[i] * inverse).level - s.x[i];
      error += s.w[i] * difference * difference;
    }
    const LaneMask is_better = error < least;
    least = is_better ? error : least;
    best = is_better ? bits : best;
  }
  LevelsOf<16> levels;
  const Lanes inverse = divide(splat(2), number_of_e4m3(best));
  for (int i = 0; i < 16; ++i) levels.set(i, nearest_fp4(s.x[i] * inverse).number);
  put_levels(levels, 0, 4, task.out);
  for (int b = 0; b < kLanes; ++b) task.out[b / 4].factors[b % 4] = static_cast<uint8_t>(best[b]);
}

// Searches for the lines of super-blocks of 256 values.
template <int kValues>
KVIK_LANES_INLINE void search_lines(const SearchTask& task) {
  constexpr int kSubBlocks = kBlock256 / kValues;
  const SubBlocks<kValues> s = sub_blocks<kValues>(task);
  const Encoding& how = task.format.encoding;
  const float top = task.format.top;
  const ScaledLines lines = choose_lines(s, top, how.factors.high, kSubBlocks, how.n_rounds);
  put_levels(levels_of_line(s, lines.line(), top), 0, kSubBlocks, task.out);
  for (int b = 0; b < kLanes / kSubBlocks; ++b) {
    const int first = b * kSubBlocks;
    task.out[b].scale = f32_to_f16(lines.scale_unit[first]);
    task.out[b].minimum = f32_to_f16(lines.minimum_unit[first]);
    put_factors(lines.scales, 0, first, kSubBlocks, task.out[b].factors);
    put_factors(lines.minima, 0, first, kSubBlocks, task.out[b].factors + 16);
  }
}

KVIK_LANES_INLINE void search_scales(const SearchTask& task) {
  const SubBlocks<16> s = sub_blocks<16>(task);
  const Encoding& how = task.format.encoding;
  const ScaledScales scales = choose_scales(s, how.levels, how.factors, how.n_rounds);
  const int lowest = task.format.zero + static_cast<int>(how.levels.low);
  put_levels(levels_of_scale(s, scales.scale(), how.levels), lowest, kLanes, task.out);
  task.out->scale = f32_to_f16(scales.unit[0]);
  put_factors(scales.scales, task.format.min_factor, 0, kLanes, task.out->factors);
}

}  // namespace
}  // namespace encode

constexpr Search kScaleSearch = encode::search_of<encode::search_scale<32>>(16);
constexpr Search kScaleOf64Search = encode::search_of<encode::search_scale<64>>(16);
constexpr Search kBitSearch = encode::search_of<encode::search_bits>(16);
constexpr Search kLineSearch = encode::search_of<encode::search_line>(16);
constexpr Search kTableSearch = encode::search_of<encode::search_table>(16);
constexpr Search kFp4Search = encode::search_of<encode::search_fp4>(16);
constexpr Search kNvFp4Search = encode::search_of<encode::search_nvfp4>(4);
constexpr Search kLinesOf16Search = encode::search_of<encode::search_lines<16>>(1);
constexpr Search kLinesOf32Search = encode::search_of<encode::search_lines<32>>(2);
constexpr Search kScalesOf16Search = encode::search_of<encode::search_scales>(1);

}  // namespace kvik
