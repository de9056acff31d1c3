#pragma once

#include "backend/cpu/vec_avx512.h"

// The vocabulary of attention_int8_scalar.h by VPDPBUSD. Comments stand there.
namespace kvik::cpu::avx512 {

using KeyBytes = __m512i;
inline KeyBytes load_keys(const uint8_t* p) { return _mm512_loadu_si512(p); }

using QueryWord = __m512i;
inline QueryWord query_word(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

inline I32x16 zero_sums() { return {_mm512_setzero_si512()}; }
inline I32x16 begin_keys(int32_t minus_128_levels) { return {_mm512_set1_epi32(minus_128_levels)}; }
inline I32x16 dot_keys(I32x16 sums, KeyBytes keys, QueryWord q) {
  return {_mm512_dpbusd_epi32(sums.v, keys, q)};
}

// Two planes of unsigned bytes, the high ones first, against the signed V. Widening V to 16 bits
// for VPDPWSSD would take as many products, but never fewer: a high plane that is zero costs
// nothing.
inline constexpr uint32_t kLevelPlanes = 2;
inline constexpr int32_t kLastPlaneMost = 255;
inline constexpr uint32_t kLevelPlaneBytes = 512;
inline constexpr uint32_t kLevelRowBytes = 2 * kLevelPlaneBytes;

inline void store_levels(uint8_t* row, uint32_t t, I32x16 levels) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row + kLevelPlaneBytes + t),
                   _mm512_cvtepi32_epi8(levels.v));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(row + t),
                   _mm512_cvtepi32_epi8(_mm512_srli_epi32(levels.v, 8)));
}
inline bool any_above(I32x16 a, I32x16 b, int32_t limit) {
  const __m512i most = _mm512_max_epi32(a.v, b.v);
  return _mm512_cmpgt_epi32_mask(most, _mm512_set1_epi32(limit)) != 0;
}

using ValueBytes = __m512i;
inline ValueBytes load_values(const int8_t* p) { return _mm512_loadu_si512(p); }

using LevelWord = __m512i;
template <uint32_t kPlane>
inline LevelWord level_word(const uint8_t* row, uint32_t t) {
  int32_t four;
  __builtin_memcpy(&four, row + kPlane * kLevelPlaneBytes + t, sizeof(four));
  return _mm512_set1_epi32(four);
}

inline I32x16 next_plane(I32x16 sums) { return {_mm512_slli_epi32(sums.v, 8)}; }
inline I32x16 dot_values(I32x16 sums, ValueBytes values, LevelWord word) {
  return {_mm512_dpbusd_epi32(sums.v, word, values)};
}

}  // namespace kvik::cpu::avx512
