#pragma once

#include "tensor/blocks.h"
#include "tensor/encode/fit.h"
#include "tensor/encode/levels.h"
#include "tensor/encode/super_blocks.h"

// The block formats of 32 values: each encodes sixteen blocks at once.
namespace kvik::encode {

// Bits 0 … 3 of a block's 32 levels, and bit 4, as these formats have them.
KVIK_LANES_INLINE void pack_nibbles(const LevelsOf<32>& levels, int b, uint8_t (&nibbles)[16]) {
  for (int i = 0; i < 16; ++i) {
    nibbles[i] = static_cast<uint8_t>((levels.at(b, i) & 15) | (levels.at(b, 16 + i) & 15) << 4);
  }
}
KVIK_LANES_INLINE void pack_fifth_bits(const LevelsOf<32>& levels, int b, uint8_t (&bits)[4]) {
  for (int i = 0; i < 32; ++i) {
    bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | (levels.at(b, i) >> 4) << (i % 8));
  }
}

// A scale as f16, and bent once more to the levels that it gives.
KVIK_LANES_INLINE Lanes settle_scale(const SubBlocks<32>& s, Lanes scale, LevelRange range) {
  scale = rounded_to_f16(scale);
  const LevelSums q = sum_levels(s, divide(splat(1), scale), Lanes{}, range.low, range.high);
  const Lanes bent = rounded_to_f16(divide(q.wqx, q.wqq));
  return error_of_scale(s, bent, range) < error_of_scale(s, scale, range) ? bent : scale;
}

struct FormatQ8_0 {
  using Block = BlockQ8_0;
  static constexpr int kValues = 32, kSubBlocks = 1;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    constexpr LevelRange kRange{-127, 127};
    const Lanes scale = settle_scale(s, fit_scale(s, kRange, 4, 0.25f), kRange);
    const LevelsOf<32> levels = levels_of_scale(s, scale, kRange);
    for (int b = 0; b < kLanes; ++b) {
      out[b].scale = f32_to_f16(scale[b]);
      for (int i = 0; i < 32; ++i) {
        out[b].quants[i] = static_cast<int8_t>(levels.at(b, i) - 127);
      }
    }
  }
};

struct FormatQ4_0 {
  using Block = BlockQ4_0;
  static constexpr int kValues = 32, kSubBlocks = 1;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    constexpr LevelRange kRange{-8, 7};
    const Lanes scale = settle_scale(s, fit_scale(s, kRange, 8, 0.125f), kRange);
    const LevelsOf<32> levels = levels_of_scale(s, scale, kRange);
    for (int b = 0; b < kLanes; ++b) {
      out[b].scale = f32_to_f16(scale[b]);
      pack_nibbles(levels, b, out[b].nibbles);
    }
  }
};

struct FormatQ5_0 {
  using Block = BlockQ5_0;
  static constexpr int kValues = 32, kSubBlocks = 1;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    constexpr LevelRange kRange{-16, 15};
    const Lanes scale = settle_scale(s, fit_scale(s, kRange, 8, 0.125f), kRange);
    const LevelsOf<32> levels = levels_of_scale(s, scale, kRange);
    for (int b = 0; b < kLanes; ++b) {
      out[b] = {.scale = f32_to_f16(scale[b]), .fifth_bits = {}, .nibbles = {}};
      pack_nibbles(levels, b, out[b].nibbles);
      pack_fifth_bits(levels, b, out[b].fifth_bits);
    }
  }
};

// A line whose scale and minimum are f16 of any sign.
KVIK_LANES_INLINE Line free_line(const SubBlocks<32>& s, float top) {
  const Line fit = fit_line<Minimum::kAny>(s, top, 8, 0.125f);
  const Line line{rounded_to_f16(fit.scale), rounded_to_f16(fit.minimum)};
  const LevelSums q = sum_levels(s, divide(splat(1), line.scale), line.minimum, 0, top);
  const Line bent = bent_line<Minimum::kAny>(s, q);
  const Line other{rounded_to_f16(bent.scale), rounded_to_f16(bent.minimum)};
  const LaneMask is_better = error_of_line(s, other, top) < error_of_line(s, line, top);
  return {is_better ? other.scale : line.scale, is_better ? other.minimum : line.minimum};
}

struct FormatQ4_1 {
  using Block = BlockQ4_1;
  static constexpr int kValues = 32, kSubBlocks = 1;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    const Line line = free_line(s, 15);
    const LevelsOf<32> levels = levels_of_line(s, line, 15);
    for (int b = 0; b < kLanes; ++b) {
      out[b].scale = f32_to_f16(line.scale[b]);
      out[b].minimum = f32_to_f16(-line.minimum[b]);
      pack_nibbles(levels, b, out[b].nibbles);
    }
  }
};

struct FormatQ5_1 {
  using Block = BlockQ5_1;
  static constexpr int kValues = 32, kSubBlocks = 1;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    const Line line = free_line(s, 31);
    const LevelsOf<32> levels = levels_of_line(s, line, 31);
    for (int b = 0; b < kLanes; ++b) {
      out[b] = {.scale = f32_to_f16(line.scale[b]),
                .minimum = f32_to_f16(-line.minimum[b]),
                .fifth_bits = {},
                .nibbles = {}};
      pack_nibbles(levels, b, out[b].nibbles);
      pack_fifth_bits(levels, b, out[b].fifth_bits);
    }
  }
};

// The level of kIq4Levels that is nearest to each value, and its number.
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

struct FormatIQ4NL {
  using Block = BlockIQ4NL;
  static constexpr int kValues = 32, kSubBlocks = 1;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;

  struct Trial {
    Lanes scale, error;
  };
  // The f16 scale of least squares for the levels that `inverse` gives, and what it costs.
  KVIK_LANES_INLINE static Trial bend(const SubBlocks<32>& s, Lanes inverse) {
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

  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    constexpr float kEnds[] = {kIq4Levels[0], kIq4Levels[15]};
    constexpr int kSteps = 7;
    const Lanes peak = peak_of(s);
    Trial best = bend(s, divide(splat(kEnds[0]), peak));
    for (const float end : kEnds) {
      for (int i = -kSteps; i <= kSteps; ++i) {
        const float bound = end * (1.0f + 0.02f * static_cast<float>(i));
        const Trial trial = bend(s, divide(splat(bound), peak));
        const LaneMask is_better = trial.error < best.error;
        best.error = is_better ? trial.error : best.error;
        best.scale = is_better ? trial.scale : best.scale;
      }
    }
    LevelsOf<32> levels;
    const Lanes inverse = divide(splat(1), best.scale);
    for (int i = 0; i < 32; ++i) levels.set(i, nearest_iq4(s.x[i] * inverse).number);
    for (int b = 0; b < kLanes; ++b) {
      out[b].scale = f32_to_f16(best.scale[b]);
      pack_nibbles(levels, b, out[b].nibbles);
    }
  }
};

}  // namespace kvik::encode
