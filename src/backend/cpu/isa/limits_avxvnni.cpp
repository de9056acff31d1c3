#include <immintrin.h>

#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::avxvnni {

double int8_dot(long n) {
  constexpr int kChains = 12;
  __m256i chain[kChains], x = _mm256_set1_epi8(1);
  for (auto& c : chain) c = _mm256_setzero_si256();
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& c : chain) c = _mm256_dpbusd_avx_epi32(c, x, x);
    asm volatile("" : "+x"(x));
  }
  for (auto& c : chain) asm volatile("" : "+x"(c));
  return kChains * 32.0 * 2 * static_cast<double>(n);
}

}  // namespace kvik::cpu::avxvnni
