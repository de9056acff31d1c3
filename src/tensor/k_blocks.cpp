#include "tensor/k_blocks.h"

#include <cstring>

#include "tensor/half.h"

namespace kvik {
namespace {

template <class Block>
Block load(const std::byte* bytes, size_t index) {
  Block block;
  std::memcpy(&block, bytes + index * sizeof(Block), sizeof(Block));
  return block;
}

void levels_of_nibbles(const uint8_t (&nibbles)[128], std::span<uint8_t, kBlock256> levels) {
  for (size_t i = 0; i < 128; ++i) {
    const size_t at = i / 32 * 64 + i % 32;
    levels[at] = nibbles[i] & 15;
    levels[at + 32] = nibbles[i] >> 4;
  }
}

template <class Block>
void dequantize_with_minima(const std::byte* bytes, std::span<float> out) {
  uint8_t levels[kBlock256];
  for (size_t b = 0; b < out.size() / kBlock256; ++b) {
    const auto block = load<Block>(bytes, b);
    const SubBlockScales sub = unpack_six_bits(block.scales);
    levels_of(block, levels);
    for (size_t i = 0; i < kBlock256; ++i) {
      const float step = f16_to_f32(block.scale) * sub.scales[i / 32];
      const float minimum = f16_to_f32(block.minimum) * sub.minima[i / 32];
      out[b * kBlock256 + i] = step * levels[i] - minimum;
    }
  }
}

}  // namespace

SubBlockScales unpack_six_bits(const uint8_t (&packed)[12]) {
  SubBlockScales out;
  for (size_t i = 0; i < 4; ++i) {
    out.scales[i] = packed[i] & 63;
    out.minima[i] = packed[4 + i] & 63;
    const uint8_t low_halves = packed[8 + i];
    out.scales[4 + i] = static_cast<uint8_t>((low_halves & 15) | (packed[i] >> 6) << 4);
    out.minima[4 + i] = static_cast<uint8_t>((low_halves >> 4) | (packed[4 + i] >> 6) << 4);
  }
  return out;
}

void levels_of(const BlockQ4K& block, std::span<uint8_t, kBlock256> levels) {
  levels_of_nibbles(block.nibbles, levels);
}

void levels_of(const BlockQ5K& block, std::span<uint8_t, kBlock256> levels) {
  levels_of_nibbles(block.nibbles, levels);
  for (size_t i = 0; i < kBlock256; ++i) {
    const int fifth = (block.fifth_bits[i % 32] >> (i / 32)) & 1;
    levels[i] = static_cast<uint8_t>(levels[i] | fifth << 4);
  }
}

void levels_of(const BlockQ6K& block, std::span<uint8_t, kBlock256> levels) {
  for (size_t i = 0; i < kBlock256; ++i) {
    const size_t half = i / 128;
    const size_t quarter = i % 128 / 32;
    const int low = block.low[half * 64 + i % 64] >> (quarter / 2 * 4) & 15;
    const int high = block.high[half * 32 + i % 32] >> (quarter * 2) & 3;
    levels[i] = static_cast<uint8_t>(low | high << 4);
  }
}

void dequantize_q4_k(const std::byte* bytes, std::span<float> out) {
  dequantize_with_minima<BlockQ4K>(bytes, out);
}

void dequantize_q5_k(const std::byte* bytes, std::span<float> out) {
  dequantize_with_minima<BlockQ5K>(bytes, out);
}

void dequantize_q6_k(const std::byte* bytes, std::span<float> out) {
  uint8_t levels[kBlock256];
  for (size_t b = 0; b < out.size() / kBlock256; ++b) {
    const auto block = load<BlockQ6K>(bytes, b);
    levels_of(block, levels);
    for (size_t i = 0; i < kBlock256; ++i) {
      const float step = f16_to_f32(block.scale) * block.scales[i / 16];
      out[b * kBlock256 + i] = step * static_cast<float>(levels[i] - 32);
    }
  }
}

}  // namespace kvik
