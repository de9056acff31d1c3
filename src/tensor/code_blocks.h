#pragma once

#include "tensor/block_format.h"
#include "tensor/encode/search.h"
#include "tensor/grids.h"
#include "tensor/packed_bytes.h"
#include "tensor/round.h"

// Super-blocks of 256 values with a codebook, as stored in files (ggml's block_iq1_s …
// block_iq3_s), and the two types of −1, 0 and 1. A sub-block has the factor 2 · s + 1.
namespace kvik {

// Negative values of four times eight, and s. Each eight have an even number of negative values, so
// the file has only seven bits of them, the lowest bits first; the upper four bits are s.
struct SignsAndScale {
  uint8_t bytes[4];

  void numbers(const BlockReader&, uint8_t* signs, uint8_t& factor) const {
    uint32_t word = 0;
    for (size_t i = 0; i < 4; ++i) word |= static_cast<uint32_t>(bytes[i]) << (8 * i);
    for (size_t i = 0; i < 4; ++i) signs[i] = with_eighth_sign(word >> (7 * i) & 127);
    factor = static_cast<uint8_t>(2 * (word >> 28) + 1);
  }
  void numbers(const BlockWriter&, const uint8_t* signs, uint8_t factor) {
    uint32_t word = static_cast<uint32_t>(factor / 2) << 28;
    for (size_t i = 0; i < 4; ++i) word |= (signs[i] & 127u) << (7 * i);
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<uint8_t>(word >> (8 * i));
  }
  static uint8_t with_eighth_sign(uint32_t seven) {
    return static_cast<uint8_t>(seven | (__builtin_popcount(seven) & 1u) << 7);
  }
};

// Factors 2 · s + 1 of which a byte has two, the first in its low half. A reader gets s from the
// plane, then computes the factors; a writer does the reverse.
template <size_t n>
void halves_to_factors(const BlockReader& io, const uint8_t (&bytes)[n], uint8_t* factors) {
  io.bits(bytes, factors, {.bits = 4, .span = 1});
  for (size_t i = 0; i < 2 * n; ++i) factors[i] = static_cast<uint8_t>(2 * factors[i] + 1);
}
template <size_t n>
void halves_to_factors(const BlockWriter&, uint8_t (&bytes)[n], const uint8_t* factors) {
  for (size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<uint8_t>(factors[2 * i] / 2 | factors[2 * i + 1] / 2 << 4);
  }
}

// Eight sub-blocks of 32: value = scale / 4 · (2 · s + 1) · level.
struct BlockIQ3XXS {
  uint16_t scale;     // f16
  uint8_t codes[64];  // of four values
  SignsAndScale of[8];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (size_t i = 0; i < 64; ++i) io.number(block.codes[i], numbers.codes[i]);
    for (size_t s = 0; s < 8; ++s) {
      block.of[s].numbers(io, numbers.signs + 4 * s, numbers.factors[s]);
    }
  }
};
static_assert(sizeof(BlockIQ3XXS) == 98);

// Eight sub-blocks of 32: value = scale · (2 · s + 1) · level.
struct BlockIQ3S {
  uint16_t scale;        // f16
  uint8_t codes[64];     // the low eight bits of codes of four values
  uint8_t high_bits[8];  // the ninth bits
  uint8_t signs[32];
  uint8_t scales[4];  // of sub-block 2i in the low half of byte i, of 2i + 1 in the high half

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (uint32_t i = 0; i < 64; ++i) {
      io.field(block.codes[i], numbers.codes[i], Field{.bits = 8});
      io.field(block.high_bits[i / 8], numbers.codes[i], Field{.bits = 1, .at = i % 8, .shift = 8});
    }
    io.bytes(block.signs, numbers.signs);
    halves_to_factors(io, block.scales, numbers.factors);
  }
};
static_assert(sizeof(BlockIQ3S) == 110);

// Eight sub-blocks of 32: value = scale / 8 · (2 · s + 1) · level.
struct BlockIQ2XXS {
  struct SubBlock {
    uint8_t codes[4];  // of eight values
    SignsAndScale of;
  };
  uint16_t scale;  // f16
  SubBlock sub_blocks[8];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (size_t s = 0; s < 8; ++s) {
      auto& sub_block = block.sub_blocks[s];
      for (size_t i = 0; i < 4; ++i) io.number(sub_block.codes[i], numbers.codes[4 * s + i]);
      sub_block.of.numbers(io, numbers.signs + 4 * s, numbers.factors[s]);
    }
  }
};
static_assert(sizeof(BlockIQ2XXS) == 66);

// Sixteen sub-blocks of 16: value = scale / 8 · (2 · s + 1) · level.
struct BlockIQ2XS {
  uint16_t scale;      // f16
  uint16_t codes[32];  // nine bits of a code of eight values, then seven signs (SignsAndScale)
  uint8_t scales[8];   // as in BlockIQ3S

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (size_t i = 0; i < 32; ++i) {
      io.field(block.codes[i], numbers.codes[i], Field{.bits = 9});
      io.field(block.codes[i], numbers.signs[i], Field{.bits = 7, .at = 9});
    }
    add_eighth_signs(io, numbers.signs);
    halves_to_factors(io, block.scales, numbers.factors);
  }
  static void add_eighth_signs(const BlockReader&, uint8_t (&signs)[32]) {
    for (uint8_t& eight : signs) eight = SignsAndScale::with_eighth_sign(eight);
  }
  static void add_eighth_signs(const BlockWriter&, const uint8_t (&)[32]) {}
};
static_assert(sizeof(BlockIQ2XS) == 74);

// Sixteen sub-blocks of 16: value = scale / 8 · (2 · s + 1) · level.
struct BlockIQ2S {
  uint16_t scale;     // f16
  uint8_t codes[32];  // the low eight bits of codes of eight values
  uint8_t signs[32];
  uint8_t high_bits[8];  // two bits of each code, lowest first
  uint8_t scales[8];     // as in BlockIQ3S

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (uint32_t i = 0; i < 32; ++i) {
      io.field(block.codes[i], numbers.codes[i], Field{.bits = 8});
      io.field(block.high_bits[i / 4], numbers.codes[i],
               Field{.bits = 2, .at = 2 * (i % 4), .shift = 8});
    }
    io.bytes(block.signs, numbers.signs);
    halves_to_factors(io, block.scales, numbers.factors);
  }
};
static_assert(sizeof(BlockIQ2S) == 82);

// Eight sub-blocks of 32: value = scale / 8 · (2 · s + 1) · level.
struct BlockIQ1S {
  uint16_t scale;     // f16
  uint8_t codes[32];  // the low eight bits of codes of eight values
  // A sub-block's word has three upper bits of each code, lowest first, then s in three bits, then
  // the bit that says whether it is shifted.
  uint16_t high_bits[8];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (uint32_t i = 0; i < 32; ++i) {
      auto& high = block.high_bits[i / 4];
      io.field(block.codes[i], numbers.codes[i], Field{.bits = 8});
      io.field(high, numbers.codes[i], Field{.bits = 3, .at = 3 * (i % 4), .shift = 8});
      io.field(high, numbers.signs[i], Field{.bits = 1, .at = 15});
    }
    for (uint32_t s = 0; s < 8; ++s) {
      odd_factor(io, block.high_bits[s], numbers.factors[s], Field{.bits = 3, .at = 12});
    }
  }
  // Reads or writes s of a factor 2 · s + 1.
  static void odd_factor(const BlockReader& io, uint16_t in_file, uint8_t& factor, Field field) {
    io.field(in_file, factor, field);
    factor = static_cast<uint8_t>(2 * factor + 1);
  }
  static void odd_factor(const BlockWriter& io, uint16_t& in_file, uint8_t factor, Field field) {
    io.field(in_file, static_cast<uint8_t>(factor / 2), field);
  }
};
static_assert(sizeof(BlockIQ1S) == 50);

// Sixteen sub-blocks of 16: value = scale / 8 · (2 · s + 1) · level. Each eight values may be
// shifted.
struct BlockIQ1M {
  uint8_t codes[32];  // as in BlockIQ1S
  uint8_t
      high_bits[16];   // four bits for each code: its three upper bits, and whether it is shifted
  uint16_t scales[4];  // three bits of s for each of four sub-blocks, then four bits of `scale`

  static void parts(auto io, auto& block, auto& numbers) {
    for (uint32_t i = 0; i < 4; ++i) {
      io.field(block.scales[i], numbers.scale, Field{.bits = 4, .at = 12, .shift = 4 * i});
    }
    for (uint32_t i = 0; i < 32; ++i) {
      auto& high = block.high_bits[i / 2];
      io.field(block.codes[i], numbers.codes[i], Field{.bits = 8});
      io.field(high, numbers.codes[i], Field{.bits = 3, .at = 4 * (i % 2), .shift = 8});
      io.field(high, numbers.signs[i], Field{.bits = 1, .at = 4 * (i % 2) + 3});
    }
    for (uint32_t s = 0; s < 16; ++s) {
      BlockIQ1S::odd_factor(io, block.scales[s / 4], numbers.factors[s],
                            Field{.bits = 3, .at = 3 * (s % 4)});
    }
  }
};
static_assert(sizeof(BlockIQ1M) == 56);

// Digits of base three. A byte has the digits of five values, highest first, as a fraction of 256:
// multiplying it by 3 gives the first digit above its eight bits, and the others below.
struct Digits3 {
  static void read(uint8_t byte, size_t n, size_t step, uint8_t* levels) {
    uint32_t fraction = byte;
    for (size_t i = 0; i < n; ++i, levels += step) {
      *levels = static_cast<uint8_t>(fraction * 3 >> 8);
      fraction = fraction * 3 & 255;
    }
  }
  static uint8_t byte_of(size_t n, size_t step, const uint8_t* levels) {
    uint32_t number = 0;
    for (size_t i = 0; i < 5; ++i) number = 3 * number + (i < n ? levels[i * step] : 0u);
    return static_cast<uint8_t>((number * 256 + 242) / 243);  // rounded up
  }
};

// value = scale · (level − 1)
struct BlockTQ1 {
  // Byte i of the first 32 has values i, 32 + i, … 128 + i; byte i of the others values 160 + i,
  // 176 + i, … 224 + i.
  uint8_t fives[48];
  uint8_t fours[4];  // byte i has values 240 + i, 244 + i, 248 + i and 252 + i
  uint16_t scale;    // f16

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    for (size_t i = 0; i < 32; ++i) digits(io, block.fives[i], 5, 32, numbers.levels + i);
    for (size_t i = 0; i < 16; ++i) {
      digits(io, block.fives[32 + i], 5, 16, numbers.levels + 160 + i);
    }
    for (size_t i = 0; i < 4; ++i) digits(io, block.fours[i], 4, 4, numbers.levels + 240 + i);
  }
  static void digits(const BlockReader&, uint8_t byte, size_t n, size_t step, uint8_t* levels) {
    Digits3::read(byte, n, step, levels);
  }
  static void digits(const BlockWriter&, uint8_t& byte, size_t n, size_t step,
                     const uint8_t* levels) {
    byte = Digits3::byte_of(n, step, levels);
  }
};
static_assert(sizeof(BlockTQ1) == 54);

// value = scale · (level − 1)
struct BlockTQ2 {
  uint8_t pairs[64];  // as in BlockQ2K
  uint16_t scale;     // f16

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.pairs, numbers.levels, Plane{.bits = 2, .span = 32});
  }
};
static_assert(sizeof(BlockTQ2) == 66);

inline float quarter_f16_to_f32(uint16_t half) { return 0.25f * f16_to_f32(half); }
inline float eighth_f16_to_f32(uint16_t half) { return 0.125f * f16_to_f32(half); }

template <class Grid, size_t n_digits>
constexpr Codebook codebook_of(const Grid& grid, const int8_t (&digits)[n_digits], CodeSigns signs,
                               uint8_t max_scale, const uint16_t* (*near_points)()) {
  return {grid.levels[0], Grid::kPoints, Grid::kValues, signs,
          max_scale,      digits,        n_digits,      near_points};
}

inline constexpr Codebook kIq1Codebook =
    codebook_of(kIq1Grid, kIq1Digits, CodeSigns::kShifts, 7, near_iq1);

inline constexpr BlockFormat kCodeBlocks[] = {
    {.type = ElementType::kIQ3_XXS,
     .block = access_to<BlockIQ3XXS>,
     .sub_block = 32,
     .zero = 128,
     .top = 62,
     .to_f32 = quarter_f16_to_f32,
     .codebook = codebook_of(kIq3XxsGrid, kIq3XxsDigits, CodeSigns::kEven, 15, near_iq3_xxs),
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 4, .step = 0.06f},
     .packed = {.bytes = kUnsignedScale, .codes = kIq3XxsCodes}},
    {.type = ElementType::kIQ3_S,
     .block = access_to<BlockIQ3S>,
     .sub_block = 32,
     .zero = 128,
     .top = 15,
     .codebook = codebook_of(kIq3SGrid, kIq3SDigits, CodeSigns::kAny, 15, near_iq3_s),
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 4, .step = 0.06f},
     .packed = {.bytes = kUnsignedScale, .codes = kIq3SCodes}},
    {.type = ElementType::kIQ2_XXS,
     .block = access_to<BlockIQ2XXS>,
     .sub_block = 32,
     .zero = 128,
     .top = 43,
     .to_f32 = eighth_f16_to_f32,
     .codebook = codebook_of(kIq2XxsGrid, kIq2Digits, CodeSigns::kEven, 15, near_iq2_xxs),
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 8, .step = 0.08f},
     .packed = {.bytes = kUnsignedScale, .codes = kIq2XxsCodes}},
    {.type = ElementType::kIQ2_XS,
     .block = access_to<BlockIQ2XS>,
     .sub_block = 16,
     .zero = 128,
     .top = 43,
     .to_f32 = eighth_f16_to_f32,
     .codebook = codebook_of(kIq2XsGrid, kIq2Digits, CodeSigns::kEven, 15, near_iq2_xs),
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 8, .step = 0.08f},
     .packed = {.bytes = kOddFactorsOfHalves, .codes = kIq2XsCodes}},
    {.type = ElementType::kIQ2_S,
     .block = access_to<BlockIQ2S>,
     .sub_block = 16,
     .zero = 128,
     .top = 43,
     .to_f32 = eighth_f16_to_f32,
     .codebook = codebook_of(kIq2SGrid, kIq2Digits, CodeSigns::kAny, 15, near_iq2_s),
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 8, .step = 0.08f},
     .packed = {.bytes = kOddFactorsOfHalves, .codes = kIq2SCodes}},
    {.type = ElementType::kIQ1_S,
     .block = access_to<BlockIQ1S>,
     .sub_block = 32,
     .zero = 128,
     .top = 9,
     .to_f32 = eighth_f16_to_f32,
     .codebook = kIq1Codebook,
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 12, .step = 0.12f},
     .packed = {.bytes = kUnsignedScale, .codes = kIq1SCodes}},
    {.type = ElementType::kIQ1_M,
     .block = access_to<BlockIQ1M>,
     .sub_block = 16,
     .zero = 128,
     .top = 9,
     .to_f32 = eighth_f16_to_f32,
     .codebook = kIq1Codebook,
     .round = round_to_codes,
     .encoding = {.search = &kCodeSearch, .n_steps = 12, .step = 0.12f},
     .packed = {.bytes = kOddFactorsOfHalves, .codes = kIq1MCodes}},
    {.type = ElementType::kTQ1_0,
     .block = access_to<BlockTQ1>,
     .zero = 1,
     .top = 2,
     .round = round_to_signs,
     .encoding = {.search = &kSignSearch},
     .packed = {.level_bits = {2}}},
    {.type = ElementType::kTQ2_0,
     .block = access_to<BlockTQ2>,
     .zero = 1,
     .top = 2,
     .round = round_to_signs,
     .encoding = {.search = &kSignSearch},
     .packed = {.level_bits = {2}}},
};

}  // namespace kvik
