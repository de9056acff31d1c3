#pragma once

#include "tensor/block_format.h"
#include "tensor/e4m3.h"
#include "tensor/encode/search.h"
#include "tensor/packed_bytes.h"
#include "tensor/round.h"

// Block formats of 32 to 128 values as stored in files (ggml's layouts).
namespace kvik {

struct BlockQ8_0 {  // value = scale · quants[i]
  uint16_t scale;   // f16
  int8_t quants[32];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bytes(block.quants, numbers.levels, 0x80);
  }
};
static_assert(sizeof(BlockQ8_0) == 34);

inline constexpr Plane kNibblesOf32 = {.bits = 4, .span = 16};
inline constexpr Plane kFifthsOf32 = {.bits = 1, .span = 1, .shift = 4};

struct BlockQ4_0 {      // value = scale · (nibble − 8)
  uint16_t scale;       // f16
  uint8_t nibbles[16];  // element i in the low half of byte i, element i + 16 in the high half

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.nibbles, numbers.levels, kNibblesOf32);
  }
};
static_assert(sizeof(BlockQ4_0) == 18);

struct BlockQ4_1 {          // value = scale · nibble + minimum
  uint16_t scale, minimum;  // f16
  uint8_t nibbles[16];      // as in BlockQ4_0

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.minimum, numbers.minimum);
    io.bits(block.nibbles, numbers.levels, kNibblesOf32);
  }
};
static_assert(sizeof(BlockQ4_1) == 20);

struct BlockQ5_0 {        // value = scale · (level − 16), level in 5 bits
  uint16_t scale;         // f16
  uint8_t fifth_bits[4];  // bit i of the 32 belongs to element i
  uint8_t nibbles[16];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.nibbles, numbers.levels, kNibblesOf32);
    io.bits(block.fifth_bits, numbers.levels, kFifthsOf32);
  }
};
static_assert(sizeof(BlockQ5_0) == 22);

struct BlockQ5_1 {          // value = scale · level + minimum, level in 5 bits
  uint16_t scale, minimum;  // f16
  uint8_t fifth_bits[4];
  uint8_t nibbles[16];

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.number(block.minimum, numbers.minimum);
    io.bits(block.nibbles, numbers.levels, kNibblesOf32);
    io.bits(block.fifth_bits, numbers.levels, kFifthsOf32);
  }
};
static_assert(sizeof(BlockQ5_1) == 24);

using BlockIQ4NL = BlockQ4_0;  // value = scale · kIq4Levels[nibble]

struct BlockMXFP4 {  // value = 2^(exponent − 128) · kFp4Levels[nibble]  (OCP MX v1.0; ggml)
  uint8_t exponent;
  uint8_t nibbles[16];  // as in BlockQ4_0

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.exponent, numbers.scale);
    io.bits(block.nibbles, numbers.levels, kNibblesOf32);
  }
};
static_assert(sizeof(BlockMXFP4) == 17);

// Four sub-blocks of 16: value = scale / 2 · kFp4Levels[nibble], with unsigned E4M3 scales. A
// matrix has an additional factor (TensorView::scale).
struct BlockNVFP4 {
  uint8_t scales[4];
  uint8_t nibbles[32];  // each sub-block as in BlockQ4_0: i low, i + 8 high

  static void parts(auto io, auto& block, auto& numbers) {
    io.bytes(block.scales, numbers.factors);
    io.bits(block.nibbles, numbers.levels, {.bits = 4, .span = 8});
  }
};
static_assert(sizeof(BlockNVFP4) == 36);

struct BlockQ1_0 {   // value = scale · (−1 or 1)
  uint16_t scale;    // f16
  uint8_t bits[16];  // lowest first; set for 1

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.bits, numbers.levels, {.bits = 1, .span = 1});
  }
};
static_assert(sizeof(BlockQ1_0) == 18);

struct BlockQ2_0 {    // value = scale · (level − 1)
  uint16_t scale;     // f16
  uint8_t pairs[16];  // two bits each, lowest first

  static void parts(auto io, auto& block, auto& numbers) {
    io.number(block.scale, numbers.scale);
    io.bits(block.pairs, numbers.levels, {.bits = 2, .span = 1});
  }
};
static_assert(sizeof(BlockQ2_0) == 18);

inline constexpr BlockFormat kBlocksOf32[] = {
    {.type = ElementType::kQ8_0,
     .block = access_to<BlockQ8_0>,
     .zero = 128,
     .round = round_to_bytes,
     .encoding = {&kScaleSearch, {-127, 127}, {}, 4, 0.25f},
     .packed = {.level_bits = {8}}},
    {.type = ElementType::kQ4_0,
     .block = access_to<BlockQ4_0>,
     .zero = 8,
     .top = 15,
     .round = round_around_zero,
     .encoding = {&kScaleSearch, {-8, 7}},
     .packed = {.level_bits = {4}}},
    {.type = ElementType::kQ4_1,
     .block = access_to<BlockQ4_1>,
     .top = 15,
     .has_minimum = true,
     .round = round_above_minimum,
     .encoding = {&kLineSearch},
     .packed = {.n_halves = 2, .level_bits = {4}}},
    {.type = ElementType::kQ5_0,
     .block = access_to<BlockQ5_0>,
     .zero = 16,
     .top = 31,
     .round = round_around_zero,
     .encoding = {&kScaleSearch, {-16, 15}},
     .packed = {.level_bits = {4, 1}}},
    {.type = ElementType::kQ5_1,
     .block = access_to<BlockQ5_1>,
     .top = 31,
     .has_minimum = true,
     .round = round_above_minimum,
     .encoding = {&kLineSearch},
     .packed = {.n_halves = 2, .level_bits = {4, 1}}},
    {.type = ElementType::kIQ4_NL,
     .block = access_to<BlockIQ4NL>,
     .table = kIq4Levels,
     .round = round_to_table,
     .encoding = {&kTableSearch},
     .packed = {.level_bits = {4}}},
    {.type = ElementType::kMXFP4,
     .block = access_to<BlockMXFP4>,
     .to_f32 = half_e8m0_to_f32,
     .table = kFp4Levels,
     .round = round_to_fp4,
     .encoding = {&kFp4Search},
     .packed = {.n_halves = 0, .bytes = kExponent, .level_bits = {4}},
     .scale_bytes = {1, 254}},
    {.type = ElementType::kNvFp4,
     .block = access_to<BlockNVFP4>,
     .sub_block = 16,
     .scale = 0x3800,  // 0.5
     .factor_to_f32 = e4m3_to_f32,
     .table = kFp4Levels,
     .round = round_to_nvfp4,
     .encoding = {&kNvFp4Search},
     .packed = {.n_halves = 0, .bytes = kScalesOfHalves, .level_bits = {4}},
     .scale_bytes = {4, 126}},
    {.type = ElementType::kQ1_0,
     .block = access_to<BlockQ1_0>,
     .table = kSignLevels,
     .round = round_to_mean,
     .encoding = {&kBitSearch},
     .packed = {.level_bits = {1}}},
    {.type = ElementType::kQ2_0,
     .block = access_to<BlockQ2_0>,
     .zero = 1,
     .top = 3,
     .round = round_below_peak,
     .encoding = {.search = &kScaleOf64Search,
                  .levels = {-1, 2},
                  .large_value_weight = LargeValueWeight::kAlways},
     .packed = {.level_bits = {2}}},
};

}  // namespace kvik
