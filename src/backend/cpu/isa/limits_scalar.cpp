#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::scalar {
namespace {

// Plain loops. Eight chains hide the latency of one.
double f32_fma(long n) {
  float chain[8] = {};
  for (long i = 0; i < n; ++i) {
    for (float& c : chain) {
      c = c * 0.5f + 1e-9f;
      asm volatile("" : "+m"(c));
    }
  }
  return 8.0 * 2 * static_cast<double>(n);
}

double int8_dot(long n) {
  int32_t chain[8] = {};
  for (long i = 0; i < n; ++i) {
    for (int32_t& c : chain) {
      c += 3 * 5;
      asm volatile("" : "+m"(c));
    }
  }
  return 8.0 * 2 * static_cast<double>(n);
}

void read(const void* bytes, size_t n) {
  const auto* words = static_cast<const uint64_t*>(bytes);
  uint64_t sums[4] = {};
  for (size_t i = 0; i < n / sizeof(uint64_t); i += 4) {
    for (size_t j = 0; j < 4; ++j) sums[j] += words[i + j];
  }
  for (uint64_t& s : sums) asm volatile("" : "+m"(s));
}

}  // namespace

const LimitKernels kLimitKernels = {f32_fma, int8_dot, nullptr, nullptr, read};

}  // namespace kvik::cpu::scalar
