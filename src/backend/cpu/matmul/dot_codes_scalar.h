#pragma once

#include "backend/cpu/matmul/dot_small_scalar.h"
#include "tensor/grids.h"
#include "tensor/packed_codes.h"

// Layouts of types with a codebook (tensor/packed_codes.h), of −1 to 2 and of −1 and 1: the
// specification of dot_codes_avx2.h, dot_codes_avxvnni.h and dot_codes_avx512.h. Operands are
// levels plus 128.
namespace kvik::cpu::scalar {

// Return the lower or upper halves of bytes as factors 2 · s + 1.
inline F32x16 load_low_factors(const uint8_t* p) {
  return each_lane([&](uint32_t i) { return static_cast<float>(2 * (p[i] & 15) + 1); });
}
inline F32x16 load_high_factors(const uint8_t* p) {
  return each_lane([&](uint32_t i) { return static_cast<float>(2 * (p[i] >> 4) + 1); });
}

inline int bit_of_column(const uint8_t* plane, uint32_t column) {
  return plane[column / 8] >> (column % 8) & 1;
}

// kTimes: 4 if the activations' start words have an offset of 32, else 1.
template <const auto& kGrid, PackedCodes kPlanes, uint32_t kTimes = 1>
struct DotCodes : UnsignedSums {
  static constexpr uint32_t kStartWord = 2, kStartTimes = kTimes;
  static constexpr uint32_t kBlockBytes = kPlanes.bytes();
  static constexpr uint32_t group_of(uint32_t step) { return step; }

  static uint32_t code_at(const uint8_t* block, uint32_t number, uint32_t column) {
    uint32_t code = block[32 * number + column];
    for (uint32_t bit = 0; bit < kPlanes.n_high; ++bit) {
      const int is_set = bit_of_column(block + kPlanes.high_at(number, bit), column);
      code |= static_cast<uint32_t>(is_set) << (8 + bit);
    }
    return code;
  }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    constexpr uint32_t kStepsOfCode = 8 / kPlanes.n;
    const uint8_t* signs = block + kPlanes.signs_at();
    Weights w;
    for (uint32_t i = 0; i < kLanes; ++i) {
      const uint32_t column = kLanes * half + i;
      const uint32_t code = code_at(block, step / kStepsOfCode, column);
      const uint8_t* four = kGrid.levels[code] + 4 * (step % kStepsOfCode);
      for (uint32_t j = 0; j < 4; ++j) {
        int weight = four[j];
        if constexpr (kPlanes.n_shifts > 0) {
          weight -= 2 * bit_of_column(signs + 4 * (step * kPlanes.n_shifts / 8), column);
        } else if (bit_of_column(signs + 16 * step, 4 * column + j) != 0) {
          weight = 256 - weight;
        }
        w.weight[i][j] = static_cast<uint8_t>(weight);
      }
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotCodes>(block, out); }
};

// Like DotBytes<2>, for activations whose start words have an offset of 32.
struct DotBytesOfHalves : DotBytes<2> {
  static constexpr uint32_t kStartTimes = 4;
};

// Pairs of bits, stored like the upper ones of DotQ6. A weight is 1 less.
struct DotTernary : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 256;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w;
    const uint8_t* p = block + kGroupBytes * (step / 4) + 4 * kLanes * half;
    for (uint32_t i = 0; i < 64; ++i) {
      w.weight[i / 4][i % 4] = static_cast<uint8_t>(127 + (p[i] >> (2 * (step % 4)) & 3));
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotTernary>(block, out); }
};

// Bits, stored like the fifth ones of DotQ5: set for a weight of 1, else it is −1.
struct DotBits : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 128;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w;
    const uint8_t* bits = block + 16 * step + 8 * half;
    for (uint32_t i = 0; i < 64; ++i) {
      w.weight[i / 4][i % 4] = static_cast<uint8_t>(127 + 2 * (bits[i / 8] >> (i % 8) & 1));
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotBits>(block, out); }
};

}  // namespace kvik::cpu::scalar
