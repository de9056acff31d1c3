#include "tensor/low_bit_blocks.h"

#include <cstring>

#include "tensor/blocks.h"
#include "tensor/half.h"

namespace kvik {
namespace {

template <class Block>
Block load(const std::byte* bytes, size_t index) {
  Block block;
  std::memcpy(&block, bytes + index * sizeof(Block), sizeof(Block));
  return block;
}

int pair_at(const uint8_t (&pairs)[64], size_t i) {
  return pairs[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

}  // namespace

void scales_of(const BlockQ3K& block, std::span<uint8_t, 16> scales) {
  for (size_t s = 0; s < 16; ++s) {
    const int low = block.scales[s % 8] >> (s / 8 * 4) & 15;
    const int high = block.scales[8 + s % 4] >> (s / 4 * 2) & 3;
    scales[s] = static_cast<uint8_t>(low | high << 4);
  }
}

void scales_of(const BlockIQ4XS& block, std::span<uint8_t, 8> scales) {
  for (size_t s = 0; s < 8; ++s) {
    const int low = block.low_scales[s / 2] >> (s % 2 * 4) & 15;
    const int high = block.high_scales >> (s * 2) & 3;
    scales[s] = static_cast<uint8_t>(low | high << 4);
  }
}

void levels_of(const BlockQ2K& block, std::span<uint8_t, kBlock256> levels) {
  for (size_t i = 0; i < kBlock256; ++i) levels[i] = static_cast<uint8_t>(pair_at(block.pairs, i));
}

void levels_of(const BlockQ3K& block, std::span<uint8_t, kBlock256> levels) {
  for (size_t i = 0; i < kBlock256; ++i) {
    const int third = block.third_bits[i % 32] >> (i / 32) & 1;
    levels[i] = static_cast<uint8_t>(pair_at(block.pairs, i) | third << 2);
  }
}

void levels_of(const BlockIQ4XS& block, std::span<uint8_t, kBlock256> levels) {
  for (size_t i = 0; i < kBlock256; ++i) {
    levels[i] = block.nibbles[i / 32 * 16 + i % 16] >> (i % 32 / 16 * 4) & 15;
  }
}

void dequantize_q2_k(const std::byte* bytes, std::span<float> out) {
  uint8_t levels[kBlock256];
  for (size_t b = 0; b < out.size() / kBlock256; ++b) {
    const auto block = load<BlockQ2K>(bytes, b);
    levels_of(block, levels);
    for (size_t i = 0; i < kBlock256; ++i) {
      const int small = block.scales[i / 16];
      const float step = f16_to_f32(block.scale) * static_cast<float>(small & 15);
      const float minimum = f16_to_f32(block.minimum) * static_cast<float>(small >> 4);
      out[b * kBlock256 + i] = step * levels[i] - minimum;
    }
  }
}

void dequantize_q3_k(const std::byte* bytes, std::span<float> out) {
  uint8_t levels[kBlock256], scales[16];
  for (size_t b = 0; b < out.size() / kBlock256; ++b) {
    const auto block = load<BlockQ3K>(bytes, b);
    levels_of(block, levels);
    scales_of(block, scales);
    for (size_t i = 0; i < kBlock256; ++i) {
      const float step = f16_to_f32(block.scale) * static_cast<float>(scales[i / 16] - 32);
      out[b * kBlock256 + i] = step * static_cast<float>(levels[i] - 4);
    }
  }
}

void dequantize_iq4_xs(const std::byte* bytes, std::span<float> out) {
  uint8_t levels[kBlock256], scales[8];
  for (size_t b = 0; b < out.size() / kBlock256; ++b) {
    const auto block = load<BlockIQ4XS>(bytes, b);
    levels_of(block, levels);
    scales_of(block, scales);
    for (size_t i = 0; i < kBlock256; ++i) {
      const float step = f16_to_f32(block.scale) * static_cast<float>(scales[i / 32] - 32);
      out[b * kBlock256 + i] = step * kIq4Levels[levels[i]];
    }
  }
}

}  // namespace kvik
