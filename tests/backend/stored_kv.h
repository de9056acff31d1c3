#pragma once

#include <algorithm>
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

inline std::vector<float> as_stored(KvType type, std::vector<float> x, uint32_t head_dim) {
  if (type == KvType::kInt8) return in_int8(std::move(x), head_dim);
  if (type == KvType::kBF16) {
    for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
  }
  return x;
}

}  // namespace kvik::testing
