#pragma once

#include "tensor/block_format.h"
#include "tensor/encode/search.h"
#include "tensor/level_tables.h"
#include "tensor/round.h"

// Super-blocks of 256 values with a table of levels, as stored in files of ik_llama.cpp: a
// sub-block has a small integer factor, and a bit that selects the table or the same table shifted
// up.
namespace kvik {

// Byte of a sub-block in a panel: its factor, `kUp` bits up, and whether its table is shifted.
template <uint32_t kPerBlock32, uint32_t kUp>
inline constexpr PackedBytes kShiftedFactors = {
    kPerBlock32,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      for (uint32_t part = 0; part < kPerBlock32; ++part) {
        const uint32_t s = kPerBlock32 * b + part;
        bytes[part] = static_cast<uint8_t>(numbers.factors[s] << kUp | numbers.factors[16 + s]);
      }
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      for (uint32_t part = 0; part < kPerBlock32; ++part) {
        const uint32_t s = kPerBlock32 * b + part;
        numbers.factors[s] = static_cast<uint8_t>((bytes[part] & 254) >> kUp);
        numbers.factors[16 + s] = bytes[part] & 1;
      }
    }};
// Two factors of eight bits, then a byte of two bits that say whether their tables are shifted.
inline constexpr PackedBytes kFactorsAndShifts = {
    3,
    [](const BlockNumbers& numbers, uint32_t b, uint8_t* bytes) {
      const uint8_t* shifts = numbers.factors + 16 + 2 * b;
      bytes[0] = numbers.factors[2 * b];
      bytes[1] = numbers.factors[2 * b + 1];
      bytes[2] = static_cast<uint8_t>(shifts[0] | shifts[1] << 1);
    },
    [](const uint8_t* bytes, uint32_t b, BlockNumbers& numbers) {
      numbers.factors[2 * b] = bytes[0];
      numbers.factors[2 * b + 1] = bytes[1];
      numbers.factors[16 + 2 * b] = bytes[2] & 1;
      numbers.factors[17 + 2 * b] = bytes[2] >> 1 & 1;
    }};

// Bits of which bit `at` + s says whether the table of sub-block s is shifted.
void shifts_of(auto io, auto& bits, auto& numbers, uint32_t at, uint32_t n) {
  for (uint32_t s = 0; s < n; ++s) {
    io.field(bits, numbers.factors[16 + s], Field{.bits = 1, .at = at + s});
  }
}

inline constexpr Plane kNibblesInTurn = {.bits = 4, .span = 1};

// Sixteen sub-blocks of 16: value = scale · (s − 8) · level.
struct BlockIQ2K {
  uint16_t scale;  // f16
  uint16_t shifts;
  uint8_t scales[8];  // s of sub-block 2i in the low half of byte i, of 2i + 1 in the high half
  uint8_t pairs[64];  // as in BlockQ2K

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    shifts_of(io, block.shifts, numbers, 0, 16);
    io.bits(block.scales, numbers.factors, kNibblesInTurn);
    io.bits(block.pairs, numbers.levels, {.bits = 2, .span = 32});
  }
};
static_assert(sizeof(BlockIQ2K) == 76);

// Sixteen sub-blocks of 16: value = scale · ±(2 · s + 1) · level.
struct BlockIQ3K {
  uint16_t scale;  // f16
  uint16_t shifts;
  uint16_t signs;          // bit s is set if the factor of sub-block s is negative
  uint8_t scales[8];       // as in BlockIQ2K
  uint8_t pairs[64];       // as in BlockQ2K
  uint8_t third_bits[32];  // bit s of byte i belongs to value 32 s + i

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    shifts_of(io, block.shifts, numbers, 0, 16);
    for (uint32_t s = 0; s < 16; ++s) {
      factor(io, block.scales[s / 2], block.signs, s, numbers.factors[s]);
    }
    io.bits(block.pairs, numbers.levels, {.bits = 2, .span = 32});
    io.bits(block.third_bits, numbers.levels, {.bits = 1, .span = 32, .shift = 2});
  }
  // Factors are relative to −31.
  static void factor(const BlockReader&, uint8_t nibbles, uint16_t signs, uint32_t s,
                     uint8_t& factor) {
    const int magnitude = 2 * (nibbles >> (4 * (s % 2)) & 15) + 1;
    factor = static_cast<uint8_t>(31 + ((signs >> s & 1) != 0 ? -magnitude : magnitude));
  }
  static void factor(const BlockWriter&, uint8_t& nibbles, uint16_t& signs, uint32_t s,
                     uint8_t factor) {
    const int odd = factor - 31;
    const int magnitude = odd < 0 ? -odd : odd;
    nibbles = static_cast<uint8_t>(nibbles | magnitude / 2 << (4 * (s % 2)));
    signs = static_cast<uint16_t>(signs | (odd < 0 ? 1 : 0) << s);
  }
};
static_assert(sizeof(BlockIQ3K) == 110);

// Sixteen sub-blocks of 16: value = scale · (s − 32) · level, s in 6 bits.
struct BlockIQ4K {
  uint16_t scale;  // f16
  uint16_t shifts;
  uint8_t high_scales[4];  // two bits of each s, lowest first
  uint8_t low_scales[8];   // four bits of each s
  uint8_t nibbles[128];    // each 32 values as in BlockQ4_0

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    shifts_of(io, block.shifts, numbers, 0, 16);
    io.bits(block.low_scales, numbers.factors, kNibblesInTurn);
    io.bits(block.high_scales, numbers.factors, {.bits = 2, .span = 1, .shift = 4});
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 16});
  }
};
static_assert(sizeof(BlockIQ4K) == 144);

// Like BlockIQ4K, with levels of 5 bits.
struct BlockIQ5K {
  uint16_t scale;  // f16
  uint16_t shifts;
  uint8_t high_scales[4];
  uint8_t low_scales[8];
  uint8_t nibbles[128];    // as in BlockQ4K
  uint8_t fifth_bits[32];  // as in BlockQ5K

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    shifts_of(io, block.shifts, numbers, 0, 16);
    io.bits(block.low_scales, numbers.factors, kNibblesInTurn);
    io.bits(block.high_scales, numbers.factors, {.bits = 2, .span = 1, .shift = 4});
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 32});
    io.bits(block.fifth_bits, numbers.levels, {.bits = 1, .span = 32, .shift = 4});
  }
};
static_assert(sizeof(BlockIQ5K) == 176);

// Sixteen sub-blocks of 16: value = scale · scales[s] · level, with levels of 6 bits.
struct BlockIQ6K {
  uint16_t scale;  // f16
  uint16_t shifts;
  int8_t scales[16];
  uint8_t nibbles[128];    // as in BlockQ4K
  uint8_t upper_bits[64];  // two bits each, as the pairs of BlockQ2K

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    shifts_of(io, block.shifts, numbers, 0, 16);
    io.bytes(block.scales, numbers.factors);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 32});
    io.bits(block.upper_bits, numbers.levels, {.bits = 2, .span = 32, .shift = 4});
  }
};
static_assert(sizeof(BlockIQ6K) == 212);

// Eight sub-blocks of 32: value = row's scale · ((byte & 254) − 127) · level, with a table that is
// shifted if the byte is odd.
struct FactorBytes {
  uint8_t bytes[8];

  void numbers(const BlockReader&, uint8_t (&factors)[32]) const {
    for (size_t s = 0; s < 8; ++s) {
      factors[s] = bytes[s] & 254;
      factors[16 + s] = bytes[s] & 1;
    }
  }
  void numbers(const BlockWriter&, const uint8_t (&factors)[32]) {
    for (size_t s = 0; s < 8; ++s) bytes[s] = factors[s] | factors[16 + s];
  }
};

// Each row begins with an f32 scale.
struct BlockIQ4KS {
  FactorBytes scales;
  uint8_t nibbles[128];  // as in BlockIQ4K

  static void parts(auto io, auto& block, auto& numbers) {
    block.scales.numbers(io, numbers.factors);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 16});
  }
};
static_assert(sizeof(BlockIQ4KS) == 136);

// Each row begins with an f32 scale.
struct BlockIQ5KS {
  FactorBytes scales;
  uint8_t nibbles[128];    // as in BlockQ4K
  uint8_t fifth_bits[32];  // as in BlockQ5K

  static void parts(auto io, auto& block, auto& numbers) {
    block.scales.numbers(io, numbers.factors);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 32});
    io.bits(block.fifth_bits, numbers.levels, {.bits = 1, .span = 32, .shift = 4});
  }
};
static_assert(sizeof(BlockIQ5KS) == 168);

// Eight sub-blocks of 32: value = row's scale · (s − 16) · level, s in 5 bits. Each row begins with
// an f16 scale.
struct BlockIQ2KS {
  uint16_t bits;      // whether the tables of sub-blocks are shifted, then the fifth bits of s
  uint8_t scales[4];  // four bits of each s
  uint8_t pairs[64];  // as in BlockQ2K

  static void parts(auto io, auto& block, auto& numbers) {
    io.bits(block.scales, numbers.factors, kNibblesInTurn);
    fifth_bits(io, block.bits, numbers, 8);
    shifts_of(io, block.bits, numbers, 0, 8);
    io.bits(block.pairs, numbers.levels, {.bits = 2, .span = 32});
  }
  static void fifth_bits(auto io, auto& bits, auto& numbers, uint32_t at) {
    for (uint32_t s = 0; s < 8; ++s) {
      io.field(bits, numbers.factors[s], Field{.bits = 1, .at = at + s, .shift = 4});
    }
  }
};
static_assert(sizeof(BlockIQ2KS) == 70);

// Like BlockIQ2KS, with levels of 3 bits.
struct BlockIQ3KS {
  uint16_t bits;           // the fifth bits of s, then whether the tables are shifted
  uint8_t scales[4];       // byte i has four bits of s of sub-block i, then those of 4 + i
  uint8_t pairs[64];       // as in BlockQ2K
  uint8_t third_bits[32];  // as in BlockIQ3K

  static void parts(auto io, auto& block, auto& numbers) {
    io.bits(block.scales, numbers.factors, {.bits = 4, .span = 4});
    BlockIQ2KS::fifth_bits(io, block.bits, numbers, 0);
    shifts_of(io, block.bits, numbers, 8, 8);
    io.bits(block.pairs, numbers.levels, {.bits = 2, .span = 32});
    io.bits(block.third_bits, numbers.levels, {.bits = 1, .span = 32, .shift = 2});
  }
};
static_assert(sizeof(BlockIQ3KS) == 102);

// Eight sub-blocks of 32: value = row's scale · (s − 32) · level of a pair, s in 6 bits. Each row
// begins with an f16 scale.
struct BlockIQ2KL {
  uint16_t high_scales;    // two bits of each s, lowest first
  uint8_t low_scales[4];   // as in BlockIQ3KS
  uint8_t nibbles[64];     // of each 16 pairs, as in BlockQ4_0 of each 16 values
  uint8_t fifth_bits[16];  // bit s of byte i belongs to pair i of sub-block s

  static void parts(auto io, auto& block, auto& numbers) {
    io.bits(block.low_scales, numbers.factors, {.bits = 4, .span = 4});
    for (uint32_t s = 0; s < 8; ++s) {
      io.field(block.high_scales, numbers.factors[s], Field{.bits = 2, .at = 2 * s, .shift = 4});
      numbers_of_pairs(io, block.nibbles, block.fifth_bits, s, numbers.levels + 32 * s);
    }
    no_shifts(io, numbers);
  }
  // Both values of a pair have its number as their level.
  static void numbers_of_pairs(const BlockReader&, const uint8_t (&nibbles)[64],
                               const uint8_t (&fifth_bits)[16], uint32_t s, uint8_t* levels) {
    for (uint32_t i = 0; i < 16; ++i) {
      const int low = nibbles[16 * (s / 2) + i] >> (4 * (s % 2)) & 15;
      const auto number = static_cast<uint8_t>(low | (fifth_bits[i] >> s & 1) << 4);
      levels[2 * i] = levels[2 * i + 1] = number;
    }
  }
  static void numbers_of_pairs(const BlockWriter&, uint8_t (&nibbles)[64],
                               uint8_t (&fifth_bits)[16], uint32_t s, const uint8_t* levels) {
    for (uint32_t i = 0; i < 16; ++i) {
      uint8_t& byte = nibbles[16 * (s / 2) + i];
      byte = static_cast<uint8_t>(byte | (levels[2 * i] & 15) << (4 * (s % 2)));
      fifth_bits[i] = static_cast<uint8_t>(fifth_bits[i] | levels[2 * i] >> 4 << s);
    }
  }
  static void no_shifts(const BlockReader&, BlockNumbers& numbers) {
    for (size_t s = 0; s < 8; ++s) numbers.factors[16 + s] = 0;
  }
  static void no_shifts(const BlockWriter&, const BlockNumbers&) {}
};
static_assert(sizeof(BlockIQ2KL) == 86);

// Like BlockIQ4KS, but the bits of a sub-block's byte are the lowest bits of its words, the lowest
// first. The other bits of a word are the Gray code's number of four levels of four bits, which
// have an even number of bits. Each row begins with an f32 scale.
struct BlockIQ4KSS {
  uint16_t words[8][8];  // word k of a sub-block has its values 2k, 16 + 2k, 2k + 1 and 17 + 2k

  static void parts(auto io, auto& block, auto& numbers) {
    for (size_t s = 0; s < 8; ++s) {
      sub_block(io, block.words[s], numbers.levels + 32 * s, numbers.factors[s],
                numbers.factors[16 + s]);
    }
  }
  static void sub_block(const BlockReader&, const uint16_t (&words)[8], uint8_t* levels,
                        uint8_t& factor, uint8_t& shift) {
    int byte = 0;
    for (size_t k = 0; k < 8; ++k) {
      const int number = words[k] & 0xfffe;
      const int fours = number ^ number >> 1;
      for (size_t i = 0; i < 4; ++i) {
        levels[2 * k + i / 2 + 16 * (i % 2)] = static_cast<uint8_t>(fours >> (4 * i) & 15);
      }
      byte |= (words[k] & 1) << k;
    }
    factor = static_cast<uint8_t>(byte & 254);
    shift = static_cast<uint8_t>(byte & 1);
  }
  // If the levels have an odd number of bits, the lowest bit of value 2k changes.
  static void sub_block(const BlockWriter&, uint16_t (&words)[8], const uint8_t* levels,
                        uint8_t factor, uint8_t shift) {
    for (size_t k = 0; k < 8; ++k) {
      int number = 0;
      for (size_t i = 0; i < 4; ++i) {
        number |= levels[2 * k + i / 2 + 16 * (i % 2)] << (4 * i);
      }
      for (const int down : {1, 2, 4, 8}) number ^= number >> down;
      words[k] = static_cast<uint16_t>((number & 0xfffe) | ((factor | shift) >> k & 1));
    }
  }
};
static_assert(sizeof(BlockIQ4KSS) == 128);

inline constexpr BlockFormat kTableBlocks[] = {
    {.type = ElementType::kIQ2_K,
     .block = access_to<BlockIQ2K>,
     .sub_block = 16,
     .min_factor = -8,
     .top = 3,
     .table = kIq2KLevels,
     .table_shift = kIq2KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable2Of16Search,
                  .factors = {-8, 7},
                  .step = 0.05f,
                  .n_rounds = 4,
                  .large_value_weight = LargeValueWeight::kAlways},
     .packed = {.bytes = kShiftedFactors<2, 1>, .level_bits = {2}}},
    {.type = ElementType::kIQ3_K,
     .block = access_to<BlockIQ3K>,
     .sub_block = 16,
     .min_factor = -31,
     .has_odd_factors = true,
     .top = 7,
     .table = kIq3KLevels,
     .table_shift = kIq3KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable3Of16Search,
                  .factors = {-31, 31},
                  .step = 0.03f,
                  .n_rounds = 4,
                  .large_value_weight = LargeValueWeight::kWithoutImportance},
     .packed = {.bytes = kShiftedFactors<2, 0>, .level_bits = {2, 1}}},
    {.type = ElementType::kIQ4_K,
     .block = access_to<BlockIQ4K>,
     .sub_block = 16,
     .min_factor = -32,
     .top = 15,
     .table = kIq4Levels,
     .table_shift = kIq4KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable4Of16Search, .factors = {-32, 31}, .step = 0.02f, .n_rounds = 2},
     .packed = {.bytes = kShiftedFactors<2, 1>, .level_bits = {4}}},
    {.type = ElementType::kIQ5_K,
     .block = access_to<BlockIQ5K>,
     .sub_block = 16,
     .min_factor = -32,
     .top = 31,
     .table = kIq5KLevels,
     .table_shift = kIq5KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable5Of16Search,
                  .factors = {-32, 31},
                  .n_steps = 5,
                  .step = 0.015f,
                  .n_rounds = 2},
     .packed = {.bytes = kShiftedFactors<2, 1>, .level_bits = {4, 1}}},
    {.type = ElementType::kIQ6_K,
     .block = access_to<BlockIQ6K>,
     .sub_block = 16,
     .top = 63,
     .table = kIq6KLevels,
     .table_shift = kIq6KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable6Of16Search,
                  .factors = {-128, 127},
                  .n_steps = 4,
                  .step = 0.01f,
                  .n_rounds = 2},
     .packed = {.bytes = kFactorsAndShifts, .level_bits = {4, 2}}},
    {.type = ElementType::kIQ4_KS,
     .block = access_to<BlockIQ4KS>,
     .sub_block = 32,
     .min_factor = -127,
     .has_odd_factors = true,
     .row_scale = RowScale::kF32,
     .top = 15,
     .table = kIq4Levels,
     .table_shift = kIq4KShift,
     .round = round_to_shifted_table,
     .encoding =
         {.search = &kTable4Of32Search, .factors = {-127, 127}, .step = 0.02f, .n_rounds = 2},
     .packed = {.n_halves = 2, .bytes = kShiftedFactors<1, 0>, .level_bits = {4}}},
    {.type = ElementType::kIQ4_KSS,
     .block = access_to<BlockIQ4KSS>,
     .sub_block = 32,
     .min_factor = -127,
     .has_odd_factors = true,
     .row_scale = RowScale::kF32,
     .top = 15,
     .table = kIq4Levels,
     .table_shift = kIq4KShift,
     .round = round_to_shifted_table,
     .encoding =
         {.search = &kEvenTable4Of32Search, .factors = {-127, 127}, .step = 0.02f, .n_rounds = 2},
     .packed = {.n_halves = 2, .bytes = kShiftedFactors<1, 0>, .level_bits = {4}}},
    {.type = ElementType::kIQ5_KS,
     .block = access_to<BlockIQ5KS>,
     .sub_block = 32,
     .min_factor = -127,
     .has_odd_factors = true,
     .row_scale = RowScale::kF32,
     .top = 31,
     .table = kIq5KLevels,
     .table_shift = kIq5KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable5Of32Search,
                  .factors = {-127, 127},
                  .n_steps = 5,
                  .step = 0.015f,
                  .n_rounds = 2},
     .packed = {.n_halves = 2, .bytes = kShiftedFactors<1, 0>, .level_bits = {4, 1}}},
    {.type = ElementType::kIQ2_KS,
     .block = access_to<BlockIQ2KS>,
     .sub_block = 32,
     .min_factor = -16,
     .row_scale = RowScale::kF16,
     .top = 3,
     .table = kIq2KLevels,
     .table_shift = kIq2KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable2Of32Search,
                  .factors = {-16, 15},
                  .step = 0.05f,
                  .n_rounds = 4,
                  .large_value_weight = LargeValueWeight::kAlways},
     .packed = {.bytes = kShiftedFactors<1, 1>, .level_bits = {2}}},
    {.type = ElementType::kIQ3_KS,
     .block = access_to<BlockIQ3KS>,
     .sub_block = 32,
     .min_factor = -16,
     .row_scale = RowScale::kF16,
     .top = 7,
     .table = kIq3KLevels,
     .table_shift = kIq3KShift,
     .round = round_to_shifted_table,
     .encoding = {.search = &kTable3Of32Search,
                  .factors = {-16, 15},
                  .step = 0.03f,
                  .n_rounds = 4,
                  .large_value_weight = LargeValueWeight::kWithoutImportance},
     .packed = {.bytes = kShiftedFactors<1, 1>, .level_bits = {2, 1}}},
    {.type = ElementType::kIQ2_KL,
     .block = access_to<BlockIQ2KL>,
     .sub_block = 32,
     .min_factor = -32,
     .row_scale = RowScale::kF16,
     .top = 31,
     .pairs = kIq2KlPairs,
     .round = round_to_pairs,
     .encoding = {.search = &kPairsOf32Search, .factors = {-32, 31}, .step = 0.04f, .n_rounds = 4},
     .packed = {.bytes = kShiftedFactors<1, 1>, .level_bits = {kBitsOfPairs}}},
};

}  // namespace kvik
