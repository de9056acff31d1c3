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
