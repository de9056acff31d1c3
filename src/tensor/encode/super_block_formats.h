#pragma once

#include "tensor/encode/levels.h"
#include "tensor/encode/super_blocks.h"
#include "tensor/k_blocks.h"
#include "tensor/low_bit_blocks.h"

// The K types: each encodes what super-blocks of 256 values sixteen sub-blocks are.
namespace kvik::encode {

inline constexpr int kRounds = 2;

KVIK_LANES_INLINE uint8_t to_byte(float integer) {
  return static_cast<uint8_t>(static_cast<int>(integer));
}

// What Q4_K and Q5_K have in common: eight sub-blocks of 32, of lanes first … first + 7.
template <class Block>
KVIK_LANES_INLINE Block block_with_minima(const ScaledLines& lines, const LevelsOf<32>& levels,
                                          int first) {
  Block block{};
  block.scale = f32_to_f16(lines.scale_unit[first]);
  block.minimum = f32_to_f16(lines.minimum_unit[first]);
  for (int i = 0; i < 4; ++i) {
    const int s = static_cast<int>(lines.scales[first + 4 + i]);
    const int m = static_cast<int>(lines.minima[first + 4 + i]);
    block.scales[i] = static_cast<uint8_t>(to_byte(lines.scales[first + i]) | (s >> 4) << 6);
    block.scales[4 + i] = static_cast<uint8_t>(to_byte(lines.minima[first + i]) | (m >> 4) << 6);
    block.scales[8 + i] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
  }
  for (int i = 0; i < 128; ++i) {
    const int pair = first + i / 32 * 2;
    block.nibbles[i] = static_cast<uint8_t>((levels.at(pair, i % 32) & 15) |
                                            (levels.at(pair + 1, i % 32) & 15) << 4);
  }
  return block;
}

struct FormatQ4_K {
  using Block = BlockQ4K;
  static constexpr int kValues = 32, kSubBlocks = 8;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    const ScaledLines lines = choose_lines(s, 15, 63, kSubBlocks, kRounds);
    const LevelsOf<32> levels = levels_of_line(s, lines.line(), 15);
    for (int b = 0; b < 2; ++b) out[b] = block_with_minima<Block>(lines, levels, 8 * b);
  }
};

struct FormatQ5_K {
  using Block = BlockQ5K;
  static constexpr int kValues = 32, kSubBlocks = 8;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<32>& s, Block* out) {
    const ScaledLines lines = choose_lines(s, 31, 63, kSubBlocks, kRounds);
    const LevelsOf<32> levels = levels_of_line(s, lines.line(), 31);
    for (int b = 0; b < 2; ++b) {
      out[b] = block_with_minima<Block>(lines, levels, 8 * b);
      for (int i = 0; i < 256; ++i) {
        const int fifth = levels.at(256 * b + i) >> 4;
        out[b].fifth_bits[i % 32] =
            static_cast<uint8_t>(out[b].fifth_bits[i % 32] | fifth << (i / 32));
      }
    }
  }
};

// Two bits of 256 levels in sub-blocks of 16, from bit `shift` on: of each 128 values, byte i has
// those of i, 32 + i, 64 + i and 96 + i.
KVIK_LANES_INLINE void pack_pairs(const LevelsOf<16>& levels, int shift, uint8_t (&pairs)[64]) {
  for (int i = 0; i < 64; ++i) {
    int byte = 0;
    for (int quarter = 0; quarter < 4; ++quarter) {
      const int at = i / 32 * 128 + quarter * 32 + i % 32;
      byte |= (levels.at(at) >> shift & 3) << (2 * quarter);
    }
    pairs[i] = static_cast<uint8_t>(byte);
  }
}

struct FormatQ2_K {
  using Block = BlockQ2K;
  static constexpr int kValues = 16, kSubBlocks = 16;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kAlways;
  KVIK_LANES_INLINE static void encode(const SubBlocks<16>& s, Block* out) {
    const ScaledLines lines = choose_lines(s, 3, 15, kSubBlocks, 2 * kRounds);
    const LevelsOf<16> levels = levels_of_line(s, lines.line(), 3);
    out->scale = f32_to_f16(lines.scale_unit[0]);
    out->minimum = f32_to_f16(lines.minimum_unit[0]);
    for (int b = 0; b < 16; ++b) {
      out->scales[b] =
          static_cast<uint8_t>(to_byte(lines.scales[b]) | to_byte(lines.minima[b]) << 4);
    }
    pack_pairs(levels, 0, out->pairs);
  }
};

struct FormatQ3_K {
  using Block = BlockQ3K;
  static constexpr int kValues = 16, kSubBlocks = 16;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kWithoutImportance;
  KVIK_LANES_INLINE static void encode(const SubBlocks<16>& s, Block* out) {
    constexpr LevelRange kRange{-4, 3};
    const ScaledScales scales = choose_scales(s, kRange, {-32, 31}, 2 * kRounds);
    const LevelsOf<16> levels = levels_of_scale(s, scales.scale(), kRange);
    *out = Block{};
    out->scale = f32_to_f16(scales.unit[0]);
    for (int b = 0; b < 16; ++b) {
      // Four bits in the halves of bytes 0 … 7, the two upper ones in the quarters of 8 … 11.
      const int number = static_cast<int>(scales.scales[b]) + 32;
      uint8_t& low = out->scales[b % 8];
      low = static_cast<uint8_t>(low | (number & 15) << (b / 8 * 4));
      uint8_t& high = out->scales[8 + b % 4];
      high = static_cast<uint8_t>(high | (number >> 4) << (b / 4 * 2));
    }
    for (int i = 0; i < 256; ++i) {
      const int third = levels.at(i) >> 2;
      out->third_bits[i % 32] = static_cast<uint8_t>(out->third_bits[i % 32] | third << (i / 32));
    }
    pack_pairs(levels, 0, out->pairs);
  }
};

struct FormatQ6_K {
  using Block = BlockQ6K;
  static constexpr int kValues = 16, kSubBlocks = 16;
  static constexpr FavoursLarge kFavoursLarge = FavoursLarge::kNever;
  KVIK_LANES_INLINE static void encode(const SubBlocks<16>& s, Block* out) {
    constexpr LevelRange kRange{-32, 31};
    const ScaledScales scales = choose_scales(s, kRange, {-128, 127}, kRounds);
    const LevelsOf<16> levels = levels_of_scale(s, scales.scale(), kRange);
    out->scale = f32_to_f16(scales.unit[0]);
    for (int b = 0; b < 16; ++b) out->scales[b] = static_cast<int8_t>(scales.scales[b]);
    for (int i = 0; i < 128; ++i) {
      const int at = i / 64 * 128 + i % 64;  // its low half; the high one is 64 values behind
      out->low[i] = static_cast<uint8_t>((levels.at(at) & 15) | (levels.at(at + 64) & 15) << 4);
    }
    pack_pairs(levels, 4, out->high);
  }
};

}  // namespace kvik::encode
