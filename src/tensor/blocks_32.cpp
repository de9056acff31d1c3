#include "tensor/blocks_32.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/low_bit_blocks.h"

namespace kvik {
namespace {

template <class Block>
Block load(const std::byte* bytes, size_t index) {
  Block block;
  std::memcpy(&block, bytes + index * sizeof(Block), sizeof(Block));
  return block;
}

template <class Block>
void store(std::byte* out, size_t index, const Block& block) {
  std::memcpy(out + index * sizeof(Block), &block, sizeof(Block));
}

template <class Block>
int level_at(const Block& block, size_t i) {
  int level = block.nibbles[i % 16] >> (i / 16 * 4) & 15;
  if constexpr (requires { block.fifth_bits; }) {
    level |= (block.fifth_bits[i / 8] >> (i % 8) & 1) << 4;
  }
  return level;
}

template <class Block>
void put_level(Block& block, size_t i, int level) {
  block.nibbles[i % 16] |= static_cast<uint8_t>((level & 15) << (i / 16 * 4));
  if constexpr (requires { block.fifth_bits; }) {
    block.fifth_bits[i / 8] |= static_cast<uint8_t>(level >> 4 << (i % 8));
  }
}

// value = scale · (level − zero)
template <class Block>
void dequantize_around(int zero, const std::byte* bytes, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const auto block = load<Block>(bytes, b);
    const float scale = f16_to_f32(block.scale);
    for (size_t i = 0; i < kBlock32; ++i) {
      out[b * kBlock32 + i] = scale * static_cast<float>(level_at(block, i) - zero);
    }
  }
}

// value = scale · level + minimum
template <class Block>
void dequantize_with_minimum(const std::byte* bytes, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const auto block = load<Block>(bytes, b);
    const float scale = f16_to_f32(block.scale);
    const float minimum = f16_to_f32(block.minimum);
    for (size_t i = 0; i < kBlock32; ++i) {
      out[b * kBlock32 + i] = scale * static_cast<float>(level_at(block, i)) + minimum;
    }
  }
}

// The value of largest magnitude, with its sign.
float peak_of(std::span<const float> x) {
  float peak = 0;
  for (const float v : x) peak = std::fabs(v) > std::fabs(peak) ? v : peak;
  return peak;
}

// The peak becomes level 0, which stands for −zero; levels end at 2 · zero − 1.
template <class Block>
void quantize_around(int zero, std::span<const float> values, std::byte* out) {
  const auto middle = static_cast<float>(zero);
  for (size_t b = 0; b < values.size() / kBlock32; ++b) {
    const auto x = values.subspan(b * kBlock32, kBlock32);
    const float scale = peak_of(x) / -middle;
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    Block block{};
    block.scale = f32_to_f16(scale);
    for (size_t i = 0; i < kBlock32; ++i) {
      const float level = std::clamp(x[i] * inverse + (middle + 0.5f), 0.0f, 2 * middle - 1);
      put_level(block, i, static_cast<int>(level));
    }
    store(out, b, block);
  }
}

template <class Block>
void quantize_with_minimum(float top, std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock32; ++b) {
    const auto x = values.subspan(b * kBlock32, kBlock32);
    const float minimum = *std::ranges::min_element(x);
    const float scale = (*std::ranges::max_element(x) - minimum) / top;
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    Block block{};
    block.scale = f32_to_f16(scale);
    block.minimum = f32_to_f16(minimum);
    for (size_t i = 0; i < kBlock32; ++i) {
      const float level = std::clamp((x[i] - minimum) * inverse + 0.5f, 0.0f, top);
      put_level(block, i, static_cast<int>(level));
    }
    store(out, b, block);
  }
}

}  // namespace

void dequantize_q8_0(const std::byte* bytes, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const auto block = load<BlockQ8_0>(bytes, b);
    const float scale = f16_to_f32(block.scale);
    for (size_t i = 0; i < kBlock32; ++i) out[b * kBlock32 + i] = scale * block.quants[i];
  }
}

void dequantize_q4_0(const std::byte* bytes, std::span<float> out) {
  dequantize_around<BlockQ4_0>(8, bytes, out);
}
void dequantize_q4_1(const std::byte* bytes, std::span<float> out) {
  dequantize_with_minimum<BlockQ4_1>(bytes, out);
}
void dequantize_q5_0(const std::byte* bytes, std::span<float> out) {
  dequantize_around<BlockQ5_0>(16, bytes, out);
}
void dequantize_q5_1(const std::byte* bytes, std::span<float> out) {
  dequantize_with_minimum<BlockQ5_1>(bytes, out);
}

void dequantize_iq4_nl(const std::byte* bytes, std::span<float> out) {
  for (size_t b = 0; b < out.size() / kBlock32; ++b) {
    const auto block = load<BlockIQ4NL>(bytes, b);
    const float scale = f16_to_f32(block.scale);
    for (size_t i = 0; i < kBlock32; ++i) {
      out[b * kBlock32 + i] = scale * kIq4Levels[level_at(block, i)];
    }
  }
}

void quantize_q8_0(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock32; ++b) {
    const auto x = values.subspan(b * kBlock32, kBlock32);
    const float scale = std::fabs(peak_of(x)) / 127.0f;
    BlockQ8_0 block{f32_to_f16(scale), {}};
    for (size_t i = 0; i < kBlock32; ++i) {
      block.quants[i] = scale > 0 ? static_cast<int8_t>(std::lround(x[i] / scale)) : int8_t{0};
    }
    store(out, b, block);
  }
}

void quantize_q4_0(std::span<const float> values, std::byte* out) {
  quantize_around<BlockQ4_0>(8, values, out);
}
void quantize_q4_1(std::span<const float> values, std::byte* out) {
  quantize_with_minimum<BlockQ4_1>(15, values, out);
}
void quantize_q5_0(std::span<const float> values, std::byte* out) {
  quantize_around<BlockQ5_0>(16, values, out);
}
void quantize_q5_1(std::span<const float> values, std::byte* out) {
  quantize_with_minimum<BlockQ5_1>(31, values, out);
}

void quantize_iq4_nl(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock32; ++b) {
    const auto x = values.subspan(b * kBlock32, kBlock32);
    const float scale = peak_of(x) / -127.0f;
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    BlockIQ4NL block{};
    block.scale = f32_to_f16(scale);
    for (size_t i = 0; i < kBlock32; ++i) put_level(block, i, nearest_iq4_level(x[i] * inverse));
    store(out, b, block);
  }
}

}  // namespace kvik
