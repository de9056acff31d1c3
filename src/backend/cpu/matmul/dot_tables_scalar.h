#pragma once

#include "backend/cpu/matmul/dot_codes_scalar.h"
#include "tensor/level_tables.h"

// Layouts of types with tables of levels that can be shifted: the specification of
// dot_tables_avx2.h, dot_tables_avxvnni.h and dot_tables_avx512.h.
namespace kvik::cpu::scalar {

// Loads bytes without their lowest bit.
inline F32x16 load_even(const uint8_t* p) {
  return each_lane([&](uint32_t i) { return static_cast<float>(p[i] & 254); });
}

// Bytes of factors, [kBytes][32 columns]: one for 32 k or one for each 16 k, with the lowest bit
// set if the table is shifted; or two, then one that has these bits. Then planes of levels, which
// are indices of kOperands: two bits, stored like the upper ones of DotQ6, or four, like its low
// ones; then the higher ones of kBits, two like the upper ones of DotQ6 or one like the fifth ones
// of DotQ5.
template <uint32_t kBits, const auto& kOperands, uint32_t kShift, uint32_t kBytes>
struct DotShiftedTable : UnsignedSums {
  static constexpr uint32_t kStartWord = 2, kStartTimes = kBytes == 1 ? 1 : 4;
  static constexpr uint32_t kLow = kBits < 4 ? 2 : 4, kHigh = kBits - kLow;
  static constexpr uint32_t kLevelsAt = 32 * kBytes, kHighAt = kLevelsAt + 128 * kLow;
  static constexpr uint32_t kBlockBytes = kHighAt + 128 * kHigh;
  static constexpr uint32_t kPreparations = kBytes == 1 ? 1 : 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    const uint8_t* block;
    uint32_t half, share;
    Prepared() = default;
    Prepared(const uint8_t* b, uint32_t h, uint32_t part) : block(b), half(h), share(part) {}
    Weights load(uint32_t step) const {
      Weights w;
      for (uint32_t i = 0; i < 64; ++i) {
        const int level = bits_of<kLow>(kLevelsAt, step, i) | high_bits(step, i) << kLow;
        w.weight[i / 4][i % 4] =
            static_cast<uint8_t>(kOperands.of[level] + (is_shifted(i / 4) ? kShift : 0));
      }
      return w;
    }

   private:
    bool is_shifted(uint32_t lane) const {
      const uint32_t column = kLanes * half + lane;
      if (kBytes == 3) return (block[64 + column] >> share & 1) != 0;
      return (block[32 * share + column] & 1) != 0;
    }
    template <uint32_t n>
    int bits_of(uint32_t at, uint32_t step, uint32_t i) const {
      const uint32_t n_groups = 8 / n;  // groups in a byte
      const uint32_t group = n == 4 ? step % 4 : step / n_groups;
      const uint32_t place = n == 4 ? step / 4 : step % n_groups;
      const uint8_t byte = block[at + kGroupBytes * group + 4 * kLanes * half + i];
      return byte >> (n * place) & ((1 << n) - 1);
    }
    int high_bits(uint32_t step, uint32_t i) const {
      if constexpr (kHigh == 0) return 0;
      if constexpr (kHigh == 2) return bits_of<2>(kHighAt, step, i);
      return block[kHighAt + 16 * step + 8 * half + i / 8] >> (i % 8) & 1;
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) {
    widen_prepared<DotShiftedTable>(block, out);
  }
};

// Bytes of factors, [32 columns]; then numbers of pairs of levels (layout/packed_format.cpp), of
// which kFirst has the even and kSecond the odd ones. There are 16 pairs of a column: [2][32
// columns][4] bytes with four bits each, then [2][32 columns] bytes with the fifth bits.
struct DotPairs : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kLevelsAt = 32, kFifthsAt = kLevelsAt + 256;
  static constexpr uint32_t kBlockBytes = kFifthsAt + 64;
  static constexpr uint32_t kPreparations = 2;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  struct Prepared {
    const uint8_t* block;
    uint32_t half, share;
    Prepared() = default;
    Prepared(const uint8_t* b, uint32_t h, uint32_t part) : block(b), half(h), share(part) {}
    Weights load(uint32_t step) const {
      Weights w;
      for (uint32_t i = 0; i < kLanes; ++i) {
        const uint32_t column = kLanes * half + i;
        const uint8_t nibbles = block[kLevelsAt + kGroupBytes * share + 4 * column + step % 4];
        const uint8_t fifths = block[kFifthsAt + 32 * share + column];
        for (uint32_t j = 0; j < 4; ++j) {
          const uint32_t pair = 2 * (step % 4) + j / 2;
          const int number = (nibbles >> (4 * (j / 2)) & 15) | (fifths >> pair & 1) << 4;
          w.weight[i][j] = (j % 2 == 0 ? kIq2KlFirst : kIq2KlSecond).of[number];
        }
      }
      return w;
    }
  };
  static void widen(const uint8_t* block, uint8_t* out) { widen_prepared<DotPairs>(block, out); }
};

}  // namespace kvik::cpu::scalar
