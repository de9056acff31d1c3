#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/cpu/isa.h"
#include "tensor/half.h"

namespace kvik::testing {

inline std::vector<const cpu::InstructionSet*> sets_here() {
  std::vector<const cpu::InstructionSet*> sets;
  for (const cpu::InstructionSet& isa : cpu::instruction_sets()) {
    if (isa.runs_here()) sets.push_back(&isa);
  }
  return sets;
}

// Quantizes each head to 127 levels of its peak.
inline std::vector<float> in_int8(std::vector<float> x, uint32_t head_dim) {
  for (size_t head = 0; head < x.size(); head += head_dim) {
    float peak = 0;
    for (size_t i = head; i < head + head_dim; ++i) peak = std::max(peak, std::fabs(x[i]));
    for (size_t i = head; i < head + head_dim; ++i) {
      x[i] = std::nearbyint(x[i] * (127.0f / peak)) * (peak / 127.0f);
    }
  }
  return x;
}

// Multiplies each head by a Hadamard matrix in blocks of n, the largest power of two that divides
// head_dim, and by the next power of two above 1 / sqrt(n).
inline std::vector<float> rotated(std::vector<float> x, uint32_t head_dim) {
  const uint32_t n = head_dim & (0u - head_dim);
  for (size_t begin = 0; begin < x.size(); begin += n) {
    const std::vector<float> before(x.begin() + begin, x.begin() + begin + n);
    for (uint32_t i = 0; i < n; ++i) {
      double sum = 0;
      for (uint32_t j = 0; j < n; ++j) {
        sum += double{before[j]} * (std::popcount(i & j) % 2 == 0 ? 1 : -1);
      }
      x[begin + i] = static_cast<float>(std::ldexp(sum, -(std::countr_zero(n) / 2)));
    }
  }
  return x;
}
inline std::vector<float> rotated_back(std::vector<float> x, uint32_t head_dim) {
  x = rotated(std::move(x), head_dim);
  const bool is_odd_power = std::countr_zero(head_dim) % 2 == 1;
  for (float& value : x) value = is_odd_power ? value / 2 : value;
  return x;
}

// Quantizes each group of up to 64 values to sixteen levels, at odd multiples of a sixteenth of the
// peak.
inline std::vector<float> in_int4(std::vector<float> x, uint32_t head_dim) {
  for (size_t begin = 0; begin < x.size(); begin += head_dim) {
    for (size_t group = begin; group < begin + head_dim; group += 64) {
      const size_t end = std::min(group + 64, begin + head_dim);
      float peak = 0;
      for (size_t i = group; i < end; ++i) peak = std::max(peak, std::fabs(x[i]));
      const float scale = bf16_to_f32(f32_to_bf16(peak / 16));
      for (size_t i = group; i < end; ++i) {
        const float nibble = std::clamp(std::nearbyint(x[i] / (2 * scale) + 7.5f), 0.0f, 15.0f);
        x[i] = scale * (2 * nibble - 15);
      }
    }
  }
  return x;
}

// Quantizes one dimension's int8 levels of sixteen tokens to a grid of sixteen points from `low` to
// `high`. The first point is a whole level; the step is a multiple of a fifteenth of a level,
// rounded up.
inline std::vector<float> on_grid(const std::vector<float>& levels, float low, float high) {
  const auto limited = [](float level) { return std::clamp(level, -127.0f, 127.0f); };
  const float first = std::max(std::nearbyint(limited(low) - 0.5f), -127.0f);
  const float most = std::floor((65535.0f - 128 - 256 * (first + 128)) / 255);
  const float span = limited(high) - first;
  const float step = std::min({std::nearbyint(span * (256.0f / 255.0f) + 0.5f), most, 255.0f});
  std::vector<float> out;
  for (const float level : levels) {
    const float nibble = step > 0 ? (level - first) * (256.0f / 17.0f / step) : 0.0f;
    const float whole = std::clamp(std::nearbyint(nibble), 0.0f, 15.0f);
    out.push_back(std::floor((256 * (first + 128) + 128 + 17 * step * whole) / 256) - 128);
  }
  return out;
}

// Uses the best of nine grids: from the smallest to the largest level, with each end at its place
// or shifted by 0.02 of the range.
inline std::vector<float> on_best_grid(const std::vector<float>& levels) {
  const auto [low, high] = std::minmax_element(levels.begin(), levels.end());
  const float shift = 0.02f * (*high - *low);
  std::vector<float> best;
  double least = 0;
  for (const float of_low : {0.0f, shift, -shift}) {
    for (const float of_high : {0.0f, shift, -shift}) {
      std::vector<float> stored = on_grid(levels, *low + of_low, *high + of_high);
      double error = 0;
      for (size_t i = 0; i < levels.size(); ++i) {
        error += std::pow(double{levels[i]} - double{stored[i]}, 2);
      }
      if (!best.empty() && error >= least) continue;
      best = std::move(stored);
      least = error;
    }
  }
  return best;
}

// Quantizes K of full int4 pages by channel. Up to 64 dimensions share a scale of 127 levels; each
// dimension is quantized for sixteen tokens at a time.
inline std::vector<float> by_channel(std::vector<float> k, uint32_t head_dim) {
  constexpr uint32_t kTokens = 32, kChannelTokens = 16;
  for (float& value : k) value = bf16_to_f32(f32_to_bf16(value));
  for (size_t page = 0; page + size_t{kTokens} * head_dim <= k.size();
       page += size_t{kTokens} * head_dim) {
    const auto at = [&](uint32_t token, uint32_t d) -> float& {
      return k[page + size_t{token} * head_dim + d];
    };
    for (uint32_t group = 0; group < head_dim; group += 64) {
      const uint32_t end = std::min(group + 64, head_dim);
      float peak = 0;
      for (uint32_t token = 0; token < kTokens; ++token) {
        for (uint32_t d = group; d < end; ++d) peak = std::max(peak, std::fabs(at(token, d)));
      }
      const float inverse = 127.0f / peak;
      const auto round_channel = [&](uint32_t begin, uint32_t d) {
        std::vector<float> levels;
        for (uint32_t i = 0; i < kChannelTokens; ++i) levels.push_back(at(begin + i, d) * inverse);
        levels = on_best_grid(levels);
        for (uint32_t i = 0; i < kChannelTokens; ++i) at(begin + i, d) = peak / 127.0f * levels[i];
      };
      for (uint32_t begin = 0; begin < kTokens; begin += kChannelTokens) {
        for (uint32_t d = group; d < end; ++d) round_channel(begin, d);
      }
    }
  }
  return k;
}

// Returns K or V as stored by pages of the type, which comes from key_type() or value_type().
inline std::vector<float> as_stored(KvType type, std::vector<float> x, uint32_t head_dim) {
  if (type == KvType::kInt8) return in_int8(std::move(x), head_dim);
  if (type == KvType::kInt4) {
    return rotated_back(in_int4(rotated(std::move(x), head_dim), head_dim), head_dim);
  }
  if (type == KvType::kBF16) {
    for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
  }
  return x;
}

}  // namespace kvik::testing
