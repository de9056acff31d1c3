#include <immintrin.h>

#include "backend/cpu/isa/machine_limits.h"

namespace kvik::cpu::avx2 {
namespace {

constexpr int kChains = 10;

double f32_fma(long n) {
  __m256 chain[kChains], x = _mm256_set1_ps(1e-9f);
  for (auto& c : chain) c = _mm256_setzero_ps();
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 10
    for (auto& c : chain) c = _mm256_fmadd_ps(x, x, c);
    asm volatile("" : "+x"(x));
  }
  for (auto& c : chain) asm volatile("" : "+x"(c));
  return kChains * 8.0 * 2 * static_cast<double>(n);
}

// A few sums suffice, because the products do not depend on them.
double int8_dot(long n) {
  constexpr int kSums = 4;
  __m256i sums[kSums], x = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
  for (auto& s : sums) s = _mm256_setzero_si256();
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 4
    for (auto& s : sums) {
      s = _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_maddubs_epi16(x, x), ones));
      asm volatile("" : "+x"(x));  // without this, the product would be computed only once
    }
  }
  for (auto& s : sums) asm volatile("" : "+x"(s));
  return kSums * 32.0 * 2 * static_cast<double>(n);
}

// Eight pairs of products add up in 16 bits before they are widened.
double int4_dot(long n) {
  constexpr int kSums = 2, kPairs = 8;
  __m256i sums[kSums], x = _mm256_set1_epi8(1), ones = _mm256_set1_epi16(1);
  for (auto& s : sums) s = _mm256_setzero_si256();
  for (long i = 0; i < n; ++i) {
#pragma GCC unroll 2
    for (auto& s : sums) {
      __m256i pairs = _mm256_maddubs_epi16(x, x);
#pragma GCC unroll 8
      for (int pair = 1; pair < kPairs; ++pair) {
        asm volatile("" : "+x"(x));
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(x, x));
      }
      s = _mm256_add_epi32(s, _mm256_madd_epi16(pairs, ones));
    }
    asm volatile("" : "+x"(x));
  }
  for (auto& s : sums) asm volatile("" : "+x"(s));
  return kSums * kPairs * 32.0 * 2 * static_cast<double>(n);
}

void read(const void* bytes, size_t n) {
  const auto* p = static_cast<const uint8_t*>(bytes);
  __m256i sums[4];
  for (auto& s : sums) s = _mm256_setzero_si256();
  for (size_t i = 0; i < n; i += 128) {
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; ++j) {
      sums[j] = _mm256_add_epi64(
          sums[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i + 32 * j)));
    }
  }
  for (auto& s : sums) asm volatile("" : "+x"(s));
}

}  // namespace

const LimitKernels kLimitKernels = {f32_fma, int8_dot, int4_dot, nullptr, read};

}  // namespace kvik::cpu::avx2
