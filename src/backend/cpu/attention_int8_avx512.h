#pragma once

#include "backend/cpu/vec_avx512.h"

// The vocabulary of attention_int8_scalar.h by VPDPBUSD. Comments stand there.
namespace kvik::cpu::avx512 {

using KeyBytes = __m512i;
inline KeyBytes load_keys(const uint8_t* p) { return _mm512_loadu_si512(p); }

inline void unpack_nibbles(const uint8_t* packed, uint8_t offset, uint8_t* low, uint8_t* high) {
  const __m512i mask = _mm512_set1_epi8(30);
  const __m512i add = _mm512_set1_epi8(static_cast<char>(offset));
  const __m512i bytes = _mm512_loadu_si512(packed);
  const __m512i lows = _mm512_and_si512(_mm512_add_epi8(bytes, bytes), mask);
  const __m512i highs = _mm512_and_si512(_mm512_srli_epi16(bytes, 3), mask);
  _mm512_storeu_si512(low, _mm512_add_epi8(lows, add));
  _mm512_storeu_si512(high, _mm512_add_epi8(highs, add));
}

using QueryWord = __m512i;
inline QueryWord query_word(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Not I32x16: GCC 12 keeps an array of those in memory.
using IntSums = __m512i;
inline IntSums zero_sums() { return _mm512_setzero_si512(); }
inline I32x16 end_sums(IntSums sums) { return {sums}; }
inline IntSums begin_keys(int32_t minus_128_levels) { return _mm512_set1_epi32(minus_128_levels); }
inline IntSums dot_keys(IntSums sums, KeyBytes keys, QueryWord q) {
  return _mm512_dpbusd_epi32(sums, keys, q);
}

// Two planes of unsigned bytes, the high ones first, against the signed V. Widening V to 16 bits
// for VPDPWSSD would take as many products, but never fewer: a high plane that is zero costs
// nothing.
inline constexpr uint32_t kLevelPlanes = 2;
inline constexpr uint32_t kLevelPlaneBytes = 512;
inline constexpr uint32_t kLevelStride = 2 * kLevelPlaneBytes + 64;

// Packed to words, groups of four tokens of the two halves take turns: 0 4 1 5 2 6 3 7.
inline void store_levels(uint8_t* row, uint32_t t, I32x16 first_half, I32x16 second_half) {
  const __m512i words = _mm512_packus_epi32(first_half.v, second_half.v);
  const __m512i high = _mm512_srli_epi16(words, 8);
  auto* out = reinterpret_cast<__m256i*>(row + t);
  _mm256_storeu_si256(out, _mm512_cvtepi16_epi8(high));
  _mm256_storeu_si256(out + kLevelPlaneBytes / sizeof(__m256i), _mm512_cvtepi16_epi8(words));
}
inline bool uses_first_plane(const uint8_t* rows, uint32_t n_rows, uint32_t t) {
  __m256i all = _mm256_setzero_si256();
  for (uint32_t m = 0; m < n_rows; ++m) {
    all = _mm256_or_si256(
        all,
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows + size_t{m} * kLevelStride + t)));
  }
  return _mm256_testz_si256(all, all) == 0;
}

using ValueBytes = __m512i;
inline ValueBytes load_values(const int8_t* p) { return _mm512_loadu_si512(p); }

using LevelWord = __m512i;
template <uint32_t kPlane>
inline LevelWord level_word(const uint8_t* row, uint32_t t, uint32_t group) {
  const uint32_t place = group < 4 ? 2 * group : 2 * (group - 4) + 1;
  int32_t four;
  __builtin_memcpy(&four, row + kPlane * kLevelPlaneBytes + t + 4 * place, sizeof(four));
  return _mm512_set1_epi32(four);
}

inline IntSums next_plane(IntSums sums) { return _mm512_slli_epi32(sums, 8); }
inline IntSums dot_values(IntSums sums, ValueBytes values, LevelWord word) {
  return _mm512_dpbusd_epi32(sums, word, values);
}

}  // namespace kvik::cpu::avx512
