#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "backend/cpu/isa/isa.h"
#include "tensor/half.h"

namespace kvik::testing {

inline std::vector<const cpu::InstructionSet*> sets_here() {
  std::vector<const cpu::InstructionSet*> sets;
  for (const cpu::InstructionSet& isa : cpu::instruction_sets()) {
    if (isa.runs_here()) sets.push_back(&isa);
  }
  return sets;
}

// Each head in 127 steps of its peak.
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

// Each head times a Hadamard matrix in blocks of n, the largest power of two that divides head_dim,
// and times the power of two next above 1 / sqrt(n).
inline std::vector<float> turned(std::vector<float> x, uint32_t head_dim) {
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
inline std::vector<float> turned_back(std::vector<float> x, uint32_t head_dim) {
  x = turned(std::move(x), head_dim);
  const bool is_odd_power = std::countr_zero(head_dim) % 2 == 1;
  for (float& value : x) value = is_odd_power ? value / 2 : value;
  return x;
}

// Sixteen levels for each group of up to 64 values, at odd multiples of a sixteenth of the peak.
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

// K of int4 by channel, of the full pages. Up to 64 dimensions share levels of which 127 are their
// peak; each has a level for its lowest value, and fifteen equal steps to its highest, in whole
// fifteenths of a level, rounded up.
inline std::vector<float> by_channel(std::vector<float> k, uint32_t head_dim) {
  constexpr uint32_t kTokens = 32;
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
      for (uint32_t d = group; d < end; ++d) {
        float low = at(0, d), high = low;
        for (uint32_t token = 1; token < kTokens; ++token) {
          low = std::min(low, at(token, d));
          high = std::max(high, at(token, d));
        }
        const float first = std::max(std::nearbyint(low * inverse - 0.5f), -127.0f);
        const float span = high * inverse - first;
        const float most = std::floor((65535.0f - 128 - 256 * (first + 128)) / 255);
        const float step =
            std::min({std::nearbyint(span * (256.0f / 255.0f) + 0.5f), most, 255.0f});
        for (uint32_t token = 0; token < kTokens; ++token) {
          const float level = (at(token, d) * inverse - first) * (256.0f / (17.0f * step));
          const float nibble = std::clamp(std::nearbyint(level), 0.0f, 15.0f);
          at(token, d) = peak / 127.0f *
                         (std::floor((256 * (first + 128) + 128 + 17 * step * nibble) / 256) - 128);
        }
      }
    }
  }
  return k;
}

// K or V of pages of that type, asked for by key_type() or value_type().
inline std::vector<float> as_stored(KvType type, std::vector<float> x, uint32_t head_dim) {
  if (type == KvType::kInt8) return in_int8(std::move(x), head_dim);
  if (type == KvType::kInt4) {
    return turned_back(in_int4(turned(std::move(x), head_dim), head_dim), head_dim);
  }
  if (type == KvType::kBF16) {
    for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
  }
  return x;
}

}  // namespace kvik::testing
