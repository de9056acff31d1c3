#include <immintrin.h>

#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::avx512 {
namespace {

constexpr int kChains = 12;

double f32_fma(long n) {
  __m512 chain[kChains], x = _mm512_set1_ps(1e-9f);
  for (auto& c : chain) c = _mm512_setzero_ps();
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& c : chain) c = _mm512_fmadd_ps(x, x, c);
    asm volatile("" : "+v"(x));
  }
  for (auto& c : chain) asm volatile("" : "+v"(c));
  return kChains * 16.0 * 2 * static_cast<double>(n);
}

double int8_dot(long n) {
  __m512i chain[kChains], x = _mm512_set1_epi8(1);
  for (auto& c : chain) c = _mm512_setzero_si512();
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& c : chain) c = _mm512_dpbusd_epi32(c, x, x);
    asm volatile("" : "+v"(x));
  }
  for (auto& c : chain) asm volatile("" : "+v"(c));
  return kChains * 64.0 * 2 * static_cast<double>(n);
}

void read(const void* bytes, size_t n) {
  const auto* p = static_cast<const uint8_t*>(bytes);
  __m512i sums[4];
  for (auto& s : sums) s = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += 256) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      sums[j] = _mm512_add_epi64(sums[j], _mm512_loadu_si512(p + i + 64 * j));
    }
  }
  for (auto& s : sums) asm volatile("" : "+v"(s));
}

}  // namespace

const LimitKernels kLimitKernels = {f32_fma, int8_dot, nullptr, nullptr, read};

}  // namespace kvik::cpu::avx512
