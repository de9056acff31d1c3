#pragma once

#include "backend/cpu/matmul/dot_scalar.h"
#include "backend/cpu/matmul/matmul_kernels.h"

// More layouts of levels: the specification of dot_small_avx2.h, dot_small_avxvnni.h and
// dot_small_avx512.h. Some layouts use tables of a block's own scales, which are prepared for
// several steps at once: kPreparations objects of type Prepared cover the eight steps.
namespace kvik::cpu::scalar {

// Loads the upper halves of bytes, as floats.
inline F32x16 load_high_nibbles(const uint8_t* p) {
  return each_lane([&](uint32_t i) { return static_cast<float>(p[i] >> 4); });
}

template <class Dot>
inline void widen_prepared(const uint8_t* block, uint8_t* out) {
  constexpr uint32_t kSteps = 8 / Dot::kPreparations;
  for (uint32_t half = 0; half < 2; ++half) {
    for (uint32_t step = 0; step < 8; ++step) {
      const Weights4 w = typename Dot::Prepared(block, half, step / kSteps).load(step);
      uint8_t* to = out + kGroupBytes * Dot::group_of(step) + 4 * kLanes * half;
      for (uint32_t i = 0; i < 64; ++i) to[i] = w.weight[i / 4][i % 4];
    }
  }
}

// Like DotQ5, but levels start at −16. Adding 112 to the bits makes them operands of DotQ8.
struct DotQ5Signed : DotQ5 {
  static constexpr uint32_t kStartWord = 2;
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w = DotQ5::load(block, half, step);
    for (uint32_t i = 0; i < 64; ++i) w.weight[i / 4][i % 4] += 112;
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ5Signed>(block, out); }
};

// Like DotQ4, but levels are indices into a table of operands of DotQ8, such as kIq4Operands.
template <const uint8_t (&kOperands)[16]>
struct DotTable : DotQ4<2> {
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w = DotQ4::load(block, half, step);
    for (uint32_t i = 0; i < 64; ++i) {
      uint8_t& weight = w.weight[i / 4][i % 4];
      weight = kOperands[weight];
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotTable>(block, out); }
};

// Nibbles stored like the low ones of DotQ6, which are indices into kNvFp4Operands.
struct DotNvFp4 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w;
    const uint8_t* p = block + kGroupBytes * (step % 4) + 4 * kLanes * half;
    for (uint32_t i = 0; i < 64; ++i) {
      w.weight[i / 4][i % 4] = kNvFp4Operands[p[i] >> (step / 4 * 4) & 15];
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotNvFp4>(block, out); }
};

// Bytes [32 columns], each 128 minus the column's zero point, then levels as in DotQ4.
struct DotInt4 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 32 + 512;
  static constexpr uint32_t kPreparations = 1;
  static constexpr uint32_t group_of(uint32_t step) { return DotQ4<2>::group_of(step); }
  struct Prepared {
    const uint8_t* block;
    uint32_t half;
    Prepared() = default;
    Prepared(const uint8_t* b, uint32_t h, uint32_t) : block(b), half(h) {}
    Weights load(uint32_t step) const {
      Weights w = DotQ4<2>::load(block + 32, half, step);
      for (uint32_t i = 0; i < 64; ++i) w.weight[i / 4][i % 4] += block[kLanes * half + i / 4];
      return w;
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotInt4>(block, out); }
};

// Like DotQ8, for activations whose start is in another word.
struct DotInt8 : DotQ8 {
  static constexpr uint32_t kStartWord = 3;
};

// Bytes [2][32 columns]; the low half of each is the scale of 16 k. Then pairs of bits, stored like
// the upper ones of DotQ6: [2][32 columns][4] bytes. A weight is scale · level, at most 45.
struct DotQ2 : UnsignedSums {
  static constexpr uint32_t kStartWord = 0;
  static constexpr uint32_t kBlockBytes = 64 + 256;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    const uint8_t *scales, *pairs;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t part)
        : scales(block + kLanes * (2 * part + half)),
          pairs(block + 64 + kGroupBytes * part + 4 * kLanes * half) {}
    Weights load(uint32_t step) const {
      Weights w;
      for (uint32_t i = 0; i < 64; ++i) {
        const int level = pairs[i] >> (2 * (step % 4)) & 3;
        w.weight[i / 4][i % 4] = static_cast<uint8_t>((scales[i / 4] & 15) * level);
      }
      return w;
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotQ2>(block, out); }
};

// Like DotQ2, but with 6-bit scales that have an offset of 32, and followed by bits stored like the
// fifth ones of DotQ5, which are set for levels below zero. A weight is 128 − scale · level. The
// sign is reversed because its 256 values then fit into a byte; the column's scale has the opposite
// sign too.
struct DotQ3 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 64 + 256 + 128;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    const uint8_t *scales, *pairs, *bits;
    Prepared() = default;
    Prepared(const uint8_t* block, uint32_t half, uint32_t part)
        : scales(block + kLanes * (2 * part + half)),
          pairs(block + 64 + kGroupBytes * part + 4 * kLanes * half),
          bits(block + 64 + 256 + 8 * half) {}
    Weights load(uint32_t step) const {
      Weights w;
      for (uint32_t i = 0; i < 64; ++i) {
        const int is_below = bits[16 * step + i / 8] >> (i % 8) & 1;
        const int level = (pairs[i] >> (2 * (step % 4)) & 3) - 4 * is_below;
        w.weight[i / 4][i % 4] = static_cast<uint8_t>(128 - (scales[i / 4] - 32) * level);
      }
      return w;
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotQ3>(block, out); }
};

}  // namespace kvik::cpu::scalar
