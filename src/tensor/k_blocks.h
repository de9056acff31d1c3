#pragma once

#include "tensor/block_format.h"
#include "tensor/encode/search.h"
#include "tensor/packed_bytes.h"
#include "tensor/round.h"

// Super-blocks of 256 values as stored in files (ggml's block_q2_K … block_q6_K, block_iq4_xs):
// sub-blocks have small integer factors of one or two floats.
namespace kvik {

// Within 128 values, byte i holds values i, 32 + i, 64 + i and 96 + i.
inline constexpr Plane kPairsOf128 = {.bits = 2, .span = 32};

// Sixteen sub-blocks of 16: value = scale · s · level − minimum · m, with s in the low half of the
// sub-block's byte and m in the high one.
struct BlockQ2K {
  uint8_t scales[16];
  uint8_t pairs[64];
  uint16_t scale, minimum;  // f16

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.minimum, numbers.minimum);
    io.bits(block.scales, numbers.factors, {.bits = 4, .span = 16});
    io.bits(block.pairs, numbers.levels, kPairsOf128);
  }
};
static_assert(sizeof(BlockQ2K) == 84);

// Sixteen sub-blocks of 16: value = scale · (s − 32) · (level − 4), level in 3 bits, s in 6.
struct BlockQ3K {
  uint8_t third_bits[32];  // bit s of byte i belongs to value 32 s + i
  uint8_t pairs[64];
  uint8_t low_scales[8];   // four bits each: s in the low half of byte s, 8 + s in the high half
  uint8_t high_scales[4];  // two bits each: byte i has those of i, 4 + i, 8 + i, 12 + i
  uint16_t scale;          // f16

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.low_scales, numbers.factors, {.bits = 4, .span = 8});
    io.bits(block.high_scales, numbers.factors, {.bits = 2, .span = 4, .shift = 4});
    io.bits(block.pairs, numbers.levels, kPairsOf128);
    io.bits(block.third_bits, numbers.levels, {.bits = 1, .span = 32, .shift = 2});
  }
};
static_assert(sizeof(BlockQ3K) == 110);

// Eight scales and eight minima of 6 bits. Bytes 0 … 7 hold those of the first four sub-blocks in
// their low six bits, and the upper two bits of the others; bytes 8 … 11 hold the low four bits of
// the others, scales in the low half and minima in the high half.
struct SixBits {
  uint8_t bytes[12];

  void number(const BlockReader&, uint8_t (&factors)[32]) const {
    for (size_t i = 0; i < 4; ++i) {
      factors[i] = bytes[i] & 63;
      factors[16 + i] = bytes[4 + i] & 63;
      factors[4 + i] = static_cast<uint8_t>((bytes[8 + i] & 15) | bytes[i] >> 6 << 4);
      factors[20 + i] = static_cast<uint8_t>(bytes[8 + i] >> 4 | bytes[4 + i] >> 6 << 4);
    }
  }
  void number(const BlockWriter&, const uint8_t (&factors)[32]) {
    for (size_t i = 0; i < 4; ++i) {
      const int s = factors[4 + i], m = factors[20 + i];
      bytes[i] = static_cast<uint8_t>(factors[i] | s >> 4 << 6);
      bytes[4 + i] = static_cast<uint8_t>(factors[16 + i] | m >> 4 << 6);
      bytes[8 + i] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
    }
  }
};

// Eight sub-blocks of 32: value = scale · s · level − minimum · m.
struct BlockQ4K {
  uint16_t scale, minimum;  // f16
  SixBits scales;
  // In each run of 32 bytes, the low halves are one sub-block and the high halves the next.
  uint8_t nibbles[128];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.minimum, numbers.minimum);
    block.scales.number(io, numbers.factors);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 32});
  }
};
static_assert(sizeof(BlockQ4K) == 144);

// Like BlockQ4K, with levels of 5 bits.
struct BlockQ5K {
  uint16_t scale, minimum;  // f16
  SixBits scales;
  uint8_t fifth_bits[32];  // bit s of byte i belongs to element i of sub-block s
  uint8_t nibbles[128];    // as in BlockQ4K

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.minimum, numbers.minimum);
    block.scales.number(io, numbers.factors);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 32});
    io.bits(block.fifth_bits, numbers.levels, {.bits = 1, .span = 32, .shift = 4});
  }
};
static_assert(sizeof(BlockQ5K) == 176);

// Sixteen sub-blocks of 16: value = scale · scales[s] · (level − 32), level in 6 bits.
struct BlockQ6K {
  // Four bits each. Of each 128 values, 0 … 63 are in the low halves and 64 … 127 in the high
  // halves.
  uint8_t low[128];
  uint8_t high[64];  // two bits each, as the pairs of BlockQ2K
  int8_t scales[16];
  uint16_t scale;  // f16

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bytes(block.scales, numbers.factors);
    io.bits(block.low, numbers.levels, {.bits = 4, .span = 64});
    io.bits(block.high, numbers.levels, {.bits = 2, .span = 32, .shift = 4});
  }
};
static_assert(sizeof(BlockQ6K) == 210);

// Eight sub-blocks of 32: value = scale · (s − 32) · kIq4Levels[nibble], s in 6 bits.
struct BlockIQ4XS {
  uint16_t scale;          // f16
  uint8_t high_scales[2];  // two bits of each s, lowest first
  uint8_t low_scales[4];   // four bits of each s
  uint8_t nibbles[128];    // each sub-block as in BlockQ4_0

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.low_scales, numbers.factors, {.bits = 4, .span = 1});
    io.bits(block.high_scales, numbers.factors, {.bits = 2, .span = 1, .shift = 4});
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 16});
  }
};
static_assert(sizeof(BlockIQ4XS) == 136);

inline constexpr BlockFormat kKBlocks[] = {
    {.type = ElementType::kQ2_K,
     .block = access_to<BlockQ2K>,
     .sub_block = 16,
     .top = 3,
     .has_minimum = true,
     .round = round_spans,
     .encoding = {.search = &kLinesOf16Search,
                  .factors = {0, 15},
                  .n_rounds = 4,
                  .large_value_weight = LargeValueWeight::kAlways},
     .packed = {.n_halves = 2, .bytes = kScalesAndMinimaOfHalves, .level_bits = {2}}},
    {.type = ElementType::kQ3_K,
     .block = access_to<BlockQ3K>,
     .sub_block = 16,
     .min_factor = -32,
     .zero = 4,
     .top = 7,
     .round = round_peaks,
     .encoding = {.search = &kScalesOf16Search,
                  .levels = {-4, 3},
                  .factors = {-32, 31},
                  .n_rounds = 4,
                  .large_value_weight = LargeValueWeight::kWithoutImportance},
     .packed = {.bytes = kScalesOfHalves,
                .level_bits = {2, 1},
                .to_panel = change_sign,
                .from_panel = change_sign}},
    {.type = ElementType::kQ4_K,
     .block = access_to<BlockQ4K>,
     .sub_block = 32,
     .top = 15,
     .has_minimum = true,
     .round = round_fitted_lines,
     .encoding = {.search = &kLinesOf32Search, .factors = {0, 63}, .n_rounds = 2},
     .packed = {.n_halves = 2, .bytes = kScaleAndMinimum, .level_bits = {4}}},
    {.type = ElementType::kQ5_K,
     .block = access_to<BlockQ5K>,
     .sub_block = 32,
     .top = 31,
     .has_minimum = true,
     .round = round_fitted_lines,
     .encoding = {.search = &kLinesOf32Search, .factors = {0, 63}, .n_rounds = 2},
     .packed = {.n_halves = 2, .bytes = kScaleAndMinimum, .level_bits = {4, 1}}},
    {.type = ElementType::kQ6_K,
     .block = access_to<BlockQ6K>,
     .sub_block = 16,
     .zero = 32,
     .top = 63,
     .round = round_fitted_scales,
     .encoding =
         {.search = &kScalesOf16Search, .levels = {-32, 31}, .factors = {-128, 127}, .n_rounds = 2},
     .packed = {.bytes = kScalesOfHalves, .level_bits = {4, 2}}},
    {.type = ElementType::kIQ4_XS,
     .block = access_to<BlockIQ4XS>,
     .sub_block = 32,
     .min_factor = -32,
     .table = kIq4Levels,
     .round = round_peaks,
     .packed = {.bytes = kSignedScale, .level_bits = {4}}},
};

}  // namespace kvik
