#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// The K-quants as they lie in files (ggml's block_q4_K, block_q5_K and block_q6_K): super-blocks of
// 256 values, whose sub-blocks have small integer scales under one or two floats.
namespace kvik {

inline constexpr uint32_t kBlock256 = 256;

// Eight sub-blocks of 32: value = scale · scales[s] · level − minimum · minima[s].
struct BlockQ4K {
  uint16_t scale, minimum;  // f16
  uint8_t scales[12];       // eight scales and eight minima of 6 bits: see unpack_six_bits
  uint8_t nibbles[128];     // of 32 bytes, the low halves are one sub-block, the high ones the next
};
static_assert(sizeof(BlockQ4K) == 144);

struct BlockQ5K {
  uint16_t scale, minimum;  // f16
  uint8_t scales[12];
  uint8_t fifth_bits[32];  // bit s of byte i: of element i of sub-block s
  uint8_t nibbles[128];    // as in BlockQ4K
};
static_assert(sizeof(BlockQ5K) == 176);

// Sixteen sub-blocks of 16: value = scale · scales[s] · (level − 32), level in 6 bits.
struct BlockQ6K {
  uint8_t low[128];  // four bits each: of 128 values, 0 … 63 lie in low halves, 64 … 127 in high
  uint8_t high[64];  // two bits each: byte i has those of the values i, 32 + i, 64 + i, 96 + i
  int8_t scales[16];
  uint16_t scale;  // f16
};
static_assert(sizeof(BlockQ6K) == 210);

struct SubBlockScales {
  uint8_t scales[8], minima[8];
};
SubBlockScales unpack_six_bits(const uint8_t (&packed)[12]);

// The levels of a super-block in ascending order: 0 … 15, 0 … 31, and 0 … 63 (32 stands for zero).
void levels_of(const BlockQ4K& block, std::span<uint8_t, kBlock256> levels);
void levels_of(const BlockQ5K& block, std::span<uint8_t, kBlock256> levels);
void levels_of(const BlockQ6K& block, std::span<uint8_t, kBlock256> levels);

// Whole super-blocks to and from f32. The quantisers try a few scales per sub-block and keep the
// one of least squared error; tools/k_quants.py gives the same bytes.
void dequantize_q4_k(const std::byte* bytes, std::span<float> out);
void dequantize_q5_k(const std::byte* bytes, std::span<float> out);
void dequantize_q6_k(const std::byte* bytes, std::span<float> out);
void quantize_q4_k(std::span<const float> values, std::byte* out);
void quantize_q5_k(std::span<const float> values, std::byte* out);
void quantize_q6_k(std::span<const float> values, std::byte* out);

}  // namespace kvik
