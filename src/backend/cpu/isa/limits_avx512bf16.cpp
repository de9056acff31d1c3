#include <immintrin.h>

#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::avx512bf16 {

double bf16_dot(long n) {
  constexpr int kChains = 12;
  __m512 chain[kChains];
  __m512i ones = _mm512_set1_epi32(0x3f803f80);  // two adjacent 1.0
  for (auto& c : chain) c = _mm512_setzero_ps();
  for (long i = 0; i < n; ++i) {
    const auto x = reinterpret_cast<__m512bh>(ones);
#pragma GCC unroll 12
    for (auto& c : chain) c = _mm512_dpbf16_ps(c, x, x);
    asm volatile("" : "+v"(ones));
  }
  for (auto& c : chain) asm volatile("" : "+v"(c));
  return kChains * 32.0 * 2 * static_cast<double>(n);
}

}  // namespace kvik::cpu::avx512bf16
