#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/k_blocks.h"

// Super-blocks of 256 values in two, three and four bits as they lie in files (ggml's block_q2_K,
// block_q3_K and block_iq4_xs).
namespace kvik {

// Sixteen sub-blocks of 16: value = scale · s · level − minimum · m, with s in the low half of the
// sub-block's byte and m in the high one.
struct BlockQ2K {
  uint8_t scales[16];
  uint8_t pairs[64];        // of 128 values, byte i has those of i, 32 + i, 64 + i, 96 + i
  uint16_t scale, minimum;  // f16
};
static_assert(sizeof(BlockQ2K) == 84);

// Sixteen sub-blocks of 16: value = scale · (s − 32) · (level − 4), level in 3 bits, s in 6.
struct BlockQ3K {
  uint8_t third_bits[32];  // bit s of byte i: of value 32 s + i
  uint8_t pairs[64];       // as in BlockQ2K
  uint8_t scales[12];      // see scales_of
  uint16_t scale;          // f16
};
static_assert(sizeof(BlockQ3K) == 110);

// Eight sub-blocks of 32: value = scale · (s − 32) · kIq4Levels[nibble], s in 6 bits.
struct BlockIQ4XS {
  uint16_t scale;         // f16
  uint16_t high_scales;   // two bits of each s, from the lowest up
  uint8_t low_scales[4];  // four bits of each s
  uint8_t nibbles[128];   // of each sub-block as in BlockQ4_0
};
static_assert(sizeof(BlockIQ4XS) == 136);

// The scales s of the sub-blocks, 0 … 63.
void scales_of(const BlockQ3K& block, std::span<uint8_t, 16> scales);
void scales_of(const BlockIQ4XS& block, std::span<uint8_t, 8> scales);

// The levels of a super-block in ascending order: 0 … 3, 0 … 7 (4 stands for zero), and numbers of
// kIq4Levels.
void levels_of(const BlockQ2K& block, std::span<uint8_t, kBlock256> levels);
void levels_of(const BlockQ3K& block, std::span<uint8_t, kBlock256> levels);
void levels_of(const BlockIQ4XS& block, std::span<uint8_t, kBlock256> levels);

// Whole super-blocks to and from f32. The quantisers round to the nearest level of scales that
// reach each sub-block's peak; tools/small_quants.py gives the same bytes.
void dequantize_q2_k(const std::byte* bytes, std::span<float> out);
void dequantize_q3_k(const std::byte* bytes, std::span<float> out);
void dequantize_iq4_xs(const std::byte* bytes, std::span<float> out);
void quantize_q2_k(std::span<const float> values, std::byte* out);
void quantize_q3_k(std::span<const float> values, std::byte* out);
void quantize_iq4_xs(std::span<const float> values, std::byte* out);

// The number of the level of kIq4Levels that is nearest, the lower of two.
uint8_t nearest_iq4_level(float value);

}  // namespace kvik
