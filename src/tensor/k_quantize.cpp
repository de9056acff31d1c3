#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/half.h"
#include "tensor/k_blocks.h"

// The quantisers of k_blocks.h. Every sum runs in ascending order, as in tools/k_quants.py.
namespace kvik {
namespace {

float divide(float a, float b) { return b == 0 ? 0.0f : a / b; }

float nearest(float value, float low, float high) {
  return std::min(std::max(std::nearbyint(value), low), high);
}

// Values ≈ scale · level + offset, offset ≤ 0.
struct Line {
  float scale = 0;
  float offset = 0;
};

// Sums over a sub-block, for the line of least squares.
struct Sums {
  float q = 0, qq = 0, qx = 0, x = 0;
};

Line least_squares(const Sums& s) {
  const float det = 32.0f * s.qq - s.q * s.q;
  const float offset = divide(s.qq * s.x - s.q * s.qx, det);
  const float scale = offset > 0 || det == 0 ? divide(s.qx, s.qq)  // a line through zero
                                             : divide(32.0f * s.qx - s.x * s.q, det);
  return {scale, std::min(offset, 0.0f)};
}

// The best of nine assignments of 32 values to the levels 0 … top.
Line fit_line(std::span<const float> x, float top) {
  const float low = std::min(*std::ranges::min_element(x), 0.0f);
  const float width = *std::ranges::max_element(x) - low;
  Line best = {0, low};
  float least_error = 0;
  for (const float v : x) least_error += (low - v) * (low - v);
  for (int step = 0; step < 9; ++step) {
    const float inverse = divide(top - 1.0f + 0.25f * static_cast<float>(step), width);
    float levels[kBlock256 / 8];
    Sums sums;
    for (size_t i = 0; i < x.size(); ++i) {
      const float q = nearest(inverse * (x[i] - low), 0, top);
      levels[i] = q;
      sums.q += q;
      sums.qq += q * q;
      sums.qx += q * x[i];
      sums.x += x[i];
    }
    const Line line = least_squares(sums);
    float error = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const float difference = (line.scale * levels[i] + line.offset) - x[i];
      error += difference * difference;
    }
    if (error < least_error) {
      least_error = error;
      best = line;
    }
  }
  return best;
}

// Eight numbers ≥ 0 as 6 bits each under one f16.
struct SixBit {
  uint16_t unit;
  uint8_t numbers[8];
};

SixBit to_six_bits(const float (&values)[8]) {
  const float peak = *std::ranges::max_element(values);
  SixBit out{f32_to_f16(peak / 63.0f), {}};
  const float inverse = divide(63.0f, peak);
  for (size_t i = 0; i < 8; ++i) {
    out.numbers[i] = static_cast<uint8_t>(nearest(inverse * values[i], 0, 63));
  }
  return out;
}

struct QuantizedWithMinima {
  SixBit scales, minima;
  uint8_t levels[kBlock256];
};

QuantizedWithMinima quantize_with_minima(std::span<const float> x, float top) {
  float scales[8], minima[8];
  for (size_t s = 0; s < 8; ++s) {
    const Line line = fit_line(x.subspan(s * 32, 32), top);
    scales[s] = line.scale;
    minima[s] = -line.offset;
  }
  QuantizedWithMinima out{to_six_bits(scales), to_six_bits(minima), {}};
  for (size_t i = 0; i < kBlock256; ++i) {
    const float step = f16_to_f32(out.scales.unit) * out.scales.numbers[i / 32];
    const float minimum = f16_to_f32(out.minima.unit) * out.minima.numbers[i / 32];
    out.levels[i] = static_cast<uint8_t>(nearest(divide(x[i] + minimum, step), 0, top));
  }
  return out;
}

// What BlockQ4K and BlockQ5K have in common.
template <class Block>
Block begin_block(const QuantizedWithMinima& q) {
  Block block{};
  block.scale = q.scales.unit;
  block.minimum = q.minima.unit;
  for (size_t i = 0; i < 4; ++i) {
    const uint8_t s = q.scales.numbers[4 + i];
    const uint8_t m = q.minima.numbers[4 + i];
    block.scales[i] = static_cast<uint8_t>(q.scales.numbers[i] | (s >> 4) << 6);
    block.scales[4 + i] = static_cast<uint8_t>(q.minima.numbers[i] | (m >> 4) << 6);
    block.scales[8 + i] = static_cast<uint8_t>((s & 15) | (m & 15) << 4);
  }
  for (size_t i = 0; i < 128; ++i) {
    const uint8_t* low = q.levels + i / 32 * 64 + i % 32;
    block.nibbles[i] = static_cast<uint8_t>((low[0] & 15) | (low[32] & 15) << 4);
  }
  return block;
}

// The scale of 16 values, levels −32 … 31: the best of nine.
float fit_scale(std::span<const float> x) {
  float peak = 0;
  for (const float v : x) peak = std::fabs(v) > std::fabs(peak) ? v : peak;
  float best = 0;
  float most_gain = 0;
  for (int step = -4; step < 5; ++step) {
    const float inverse = divide(-(32.0f + 0.25f * static_cast<float>(step)), peak);
    Sums sums;
    for (const float v : x) {
      const float q = nearest(inverse * v, -32, 31);
      sums.qx += q * v;
      sums.qq += q * q;
    }
    const float gain = divide(sums.qx * sums.qx, sums.qq);
    if (gain > most_gain) {
      most_gain = gain;
      best = divide(sums.qx, sums.qq);
    }
  }
  return best;
}

BlockQ6K quantize_block_q6_k(std::span<const float> x) {
  float scales[16];
  float peak = 0;
  for (size_t s = 0; s < 16; ++s) {
    scales[s] = fit_scale(x.subspan(s * 16, 16));
    if (std::fabs(scales[s]) > std::fabs(peak)) peak = scales[s];
  }
  BlockQ6K block{};
  block.scale = f32_to_f16(peak / -128.0f);
  const float inverse = divide(-128.0f, peak);
  for (size_t s = 0; s < 16; ++s) {
    block.scales[s] = static_cast<int8_t>(nearest(inverse * scales[s], -128, 127));
  }
  for (size_t i = 0; i < kBlock256; ++i) {
    const float step = f16_to_f32(block.scale) * block.scales[i / 16];
    const auto level = static_cast<int>(nearest(divide(x[i], step), -32, 31)) + 32;
    const size_t half = i / 128;
    const size_t quarter = i % 128 / 32;
    block.low[half * 64 + i % 64] |= static_cast<uint8_t>((level & 15) << (quarter / 2 * 4));
    block.high[half * 32 + i % 32] |= static_cast<uint8_t>((level >> 4) << (quarter * 2));
  }
  return block;
}

}  // namespace

void quantize_q4_k(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock256; ++b) {
    const auto block = begin_block<BlockQ4K>(
        quantize_with_minima(values.subspan(b * kBlock256, kBlock256), 15.0f));
    std::memcpy(out + b * sizeof(block), &block, sizeof(block));
  }
}

void quantize_q5_k(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock256; ++b) {
    const auto quantized = quantize_with_minima(values.subspan(b * kBlock256, kBlock256), 31.0f);
    auto block = begin_block<BlockQ5K>(quantized);
    for (size_t i = 0; i < kBlock256; ++i) {
      const int fifth = quantized.levels[i] >> 4;
      block.fifth_bits[i % 32] |= static_cast<uint8_t>(fifth << (i / 32));
    }
    std::memcpy(out + b * sizeof(block), &block, sizeof(block));
  }
}

void quantize_q6_k(std::span<const float> values, std::byte* out) {
  for (size_t b = 0; b < values.size() / kBlock256; ++b) {
    const BlockQ6K block = quantize_block_q6_k(values.subspan(b * kBlock256, kBlock256));
    std::memcpy(out + b * sizeof(block), &block, sizeof(block));
  }
}

}  // namespace kvik
