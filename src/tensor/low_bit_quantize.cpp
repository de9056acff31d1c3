#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/low_bit_blocks.h"

// The quantisers of low_bit_blocks.h.
namespace kvik {
namespace {

float divide(float a, float b) { return b == 0 ? 0.0f : a / b; }

float nearest(float value, float low, float high) {
  return std::min(std::max(std::nearbyint(value), low), high);
}

// The value of largest magnitude, with its sign.
float peak_of(std::span<const float> x) {
  float peak = 0;
  for (const float v : x) peak = std::fabs(v) > std::fabs(peak) ? v : peak;
  return peak;
}

// Small integers of n sub-blocks under one f16: value ≈ unit · number.
template <size_t n>
struct Numbers {
  uint16_t unit;
  float numbers[n];
};

template <size_t n>
Numbers<n> to_numbers(const float (&values)[n], float at_peak, float low, float high) {
  const float peak = peak_of(values);
  Numbers<n> out{f32_to_f16(peak / at_peak), {}};
  const float inverse = divide(at_peak, peak);
  for (size_t i = 0; i < n; ++i) out.numbers[i] = nearest(inverse * values[i], low, high);
  return out;
}

BlockQ2K quantize_block_q2_k(std::span<const float> x) {
  float steps[16], minima[16];
  for (size_t s = 0; s < 16; ++s) {
    const auto part = x.subspan(s * 16, 16);
    const float low = std::min(*std::ranges::min_element(part), 0.0f);
    steps[s] = (*std::ranges::max_element(part) - low) / 3.0f;
    minima[s] = -low;
  }
  const auto scales = to_numbers(steps, 15, 0, 15);
  const auto offsets = to_numbers(minima, 15, 0, 15);
  BlockQ2K block{};
  block.scale = scales.unit;
  block.minimum = offsets.unit;
  for (size_t s = 0; s < 16; ++s) {
    block.scales[s] = static_cast<uint8_t>(static_cast<int>(scales.numbers[s]) |
                                           static_cast<int>(offsets.numbers[s]) << 4);
  }
  for (size_t i = 0; i < kBlock256; ++i) {
    const float step = f16_to_f32(block.scale) * scales.numbers[i / 16];
    const float minimum = f16_to_f32(block.minimum) * offsets.numbers[i / 16];
    const auto level = static_cast<int>(nearest(divide(x[i] + minimum, step), 0, 3));
    block.pairs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(level << (i % 128 / 32 * 2));
  }
  return block;
}

BlockQ3K quantize_block_q3_k(std::span<const float> x) {
  float steps[16];
  for (size_t s = 0; s < 16; ++s) steps[s] = peak_of(x.subspan(s * 16, 16)) / -4.0f;
  const auto scales = to_numbers(steps, -32, -32, 31);
  BlockQ3K block{};
  block.scale = scales.unit;
  for (size_t s = 0; s < 16; ++s) {
    const auto number = static_cast<int>(scales.numbers[s]) + 32;
    block.scales[s % 8] |= static_cast<uint8_t>((number & 15) << (s / 8 * 4));
    block.scales[8 + s % 4] |= static_cast<uint8_t>(number >> 4 << (s / 4 * 2));
  }
  for (size_t i = 0; i < kBlock256; ++i) {
    const float step = f16_to_f32(block.scale) * scales.numbers[i / 16];
    const auto level = static_cast<int>(nearest(divide(x[i], step), -4, 3)) + 4;
    block.pairs[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((level & 3) << (i % 128 / 32 * 2));
    block.third_bits[i % 32] |= static_cast<uint8_t>(level >> 2 << (i / 32));
  }
  return block;
}

BlockIQ4XS quantize_block_iq4_xs(std::span<const float> x) {
  float steps[8];
  for (size_t s = 0; s < 8; ++s) steps[s] = peak_of(x.subspan(s * 32, 32)) / -127.0f;
  const auto scales = to_numbers(steps, -32, -32, 31);
  BlockIQ4XS block{};
  block.scale = scales.unit;
  for (size_t s = 0; s < 8; ++s) {
    const auto number = static_cast<int>(scales.numbers[s]) + 32;
    block.low_scales[s / 2] |= static_cast<uint8_t>((number & 15) << (s % 2 * 4));
    block.high_scales |= static_cast<uint16_t>(number >> 4 << (s * 2));
  }
  for (size_t i = 0; i < kBlock256; ++i) {
    const float step = f16_to_f32(block.scale) * scales.numbers[i / 32];
    const int level = nearest_iq4_level(divide(x[i], step));
    block.nibbles[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(level << (i % 32 / 16 * 4));
  }
  return block;
}

template <class Block>
void store(std::byte* out, size_t index, const Block& block) {
  std::memcpy(out + index * sizeof(block), &block, sizeof(block));
}

}  // namespace

uint8_t nearest_iq4_level(float value) {
  uint8_t level = 0;
  for (size_t i = 0; i + 1 < std::size(kIq4Levels); ++i) {
    const float middle = 0.5f * static_cast<float>(kIq4Levels[i] + kIq4Levels[i + 1]);
    if (value > middle) ++level;
  }
  return level;
}

void quantize_q2_k(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock256; ++b) {
    store(out, b, quantize_block_q2_k(values.subspan(b * kBlock256, kBlock256)));
  }
}

void quantize_q3_k(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock256; ++b) {
    store(out, b, quantize_block_q3_k(values.subspan(b * kBlock256, kBlock256)));
  }
}

void quantize_iq4_xs(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock256; ++b) {
    store(out, b, quantize_block_iq4_xs(values.subspan(b * kBlock256, kBlock256)));
  }
}

}  // namespace kvik
