#pragma once

// GCC 12 warns about the undefined pass-through operand in its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <cstdint>

// The functions of vec_scalar.h on one AVX-512 register. The comments are in vec_scalar.h.
namespace kvik::cpu::avx512 {

inline constexpr uint32_t kLanes = 16;

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};

// Returns the mask of the lanes i < n, for n ≤ 16.
inline __mmask16 lanes_below(uint32_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

inline F32x16 set1(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 zero() { return {_mm512_setzero_ps()}; }
inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32x16 load_first(const float* p, uint32_t n) {
  return {_mm512_maskz_loadu_ps(lanes_below(n), p)};
}
inline __m256i load_256(const uint16_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline F32x16 load_bf16(const uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_256(p)), 16))};
}
inline F32x16 load_f16(const uint16_t* p) { return {_mm512_cvtph_ps(load_256(p))}; }
inline __m128i load_128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline F32x16 load_u8(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_128(p)))};
}
inline F32x16 load_i8(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_128(p)))};
}
inline F32x16 load_e4m3(const uint8_t* p) {
  const __m256i words = _mm256_cvtepi8_epi16(load_128(p));
  return {
      _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(-0x4001)))};
}
inline F32x16 load_bf16_even(const uint16_t* p) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
}
inline F32x16 load_bf16_odd(const uint16_t* p) {
  const __m512i high = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high))};
}
inline F32x16 load_bf16_shuffled(const uint16_t* p) { return load_bf16(p); }
inline F32x16 shuffled(F32x16 v) { return v; }
inline F32x16 unshuffled(F32x16 v) { return v; }
inline void store(float* p, F32x16 v) { _mm512_storeu_ps(p, v.v); }
inline void store_first(float* p, F32x16 v, uint32_t n) {
  _mm512_mask_storeu_ps(p, lanes_below(n), v.v);
}
// Does not use vcvtneps2bf16, because it flushes denormals.
inline void store_bf16(uint16_t* p, F32x16 v) {
  const __m512i bits = _mm512_castps_si512(v.v);
  const __m512i top = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_srli_epi32(
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v.v, v.v, _CMP_UNORD_Q);
  const __m512i out = _mm512_mask_or_epi32(rounded, is_nan, top, _mm512_set1_epi32(0x40));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(out));
}

inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
inline F32x16 select_ge(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ), y.v, x.v)};
}
inline F32x16 select_range(uint32_t begin, uint32_t end, F32x16 x, F32x16 y) {
  const auto lanes = static_cast<__mmask16>(lanes_below(end) & ~lanes_below(begin));
  return {_mm512_mask_blend_ps(lanes, y.v, x.v)};
}
inline F32x16 select_bits(uint32_t bits, F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(static_cast<__mmask16>(bits), y.v, x.v)};
}

inline F32x16 even_lanes(F32x16 a, F32x16 b) {
  const __m512i pick = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return {_mm512_permutex2var_ps(a.v, pick, b.v)};
}
inline F32x16 odd_lanes(F32x16 a, F32x16 b) {
  const __m512i pick = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return {_mm512_permutex2var_ps(a.v, pick, b.v)};
}
inline F32x16 interleave_low(F32x16 a, F32x16 b) {
  const __m512i pick = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return {_mm512_permutex2var_ps(a.v, pick, b.v)};
}
inline F32x16 interleave_high(F32x16 a, F32x16 b) {
  const __m512i pick =
      _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return {_mm512_permutex2var_ps(a.v, pick, b.v)};
}

inline I32x16 round_to_i32(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }
inline F32x16 to_f32(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline F32x16 exponent_from_low_bits(F32x16 a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a.v), 23))};
}
inline F32x16 float_of_bits(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
inline F32x16 ceil_power_of_2(F32x16 a) {
  const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x7fffff));
  const __m512i exponent = _mm512_set1_epi32(static_cast<int32_t>(0xff800000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(bits, exponent))};
}
inline F32x16 fraction(F32x16 a) { return {_mm512_reduce_ps(a.v, _MM_FROUND_TO_NEAREST_INT)}; }
inline F32x16 add_exponent(F32x16 a, F32x16 n) {
  const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(n.v), 23);
  return {_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), exponent))};
}
inline void store_i8(int8_t* p, I32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v.v));
}

inline float sum_lanes(F32x16 v) {
  const __m256 s8 = _mm256_add_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
inline float max_lanes(F32x16 v) {
  const __m256 s8 = _mm256_max_ps(_mm512_castps512_ps256(v.v), _mm512_extractf32x8_ps(v.v, 1));
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}

}  // namespace kvik::cpu::avx512
