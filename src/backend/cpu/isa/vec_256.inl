// The functions of vec_scalar.h on two 256-bit registers. vec_<isa>.h includes this file inside its
// namespace. The comments are in vec_scalar.h.

inline constexpr uint32_t kLanes = 16;

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};

// Returns the mask of the lanes i < n of one register.
inline __m256i lanes_below(int32_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

inline F32x16 set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline F32x16 load_first(const float* p, uint32_t n) {
  const auto lanes = static_cast<int32_t>(n);
  return {_mm256_maskload_ps(p, lanes_below(lanes)),
          _mm256_maskload_ps(p + 8, lanes_below(lanes - 8))};
}
inline __m256 widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
inline __m128i load_128(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline F32x16 load_bf16(const uint16_t* p) {
  return {widen_bf16(load_128(p)), widen_bf16(load_128(p + 8))};
}
inline F32x16 load_f16(const uint16_t* p) {
  return {_mm256_cvtph_ps(load_128(p)), _mm256_cvtph_ps(load_128(p + 8))};
}
inline __m256i load_256(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m128i load_64(const void* p) { return _mm_loadu_si64(p); }
inline F32x16 load_u8(const uint8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_64(p + 8)))};
}
inline F32x16 load_i8(const int8_t* p) {
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p))),
          _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_64(p + 8)))};
}
inline F32x16 load_e4m3(const uint8_t* p) {
  const __m256i words = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i f16 = _mm256_and_si256(_mm256_slli_epi16(words, 7), _mm256_set1_epi16(-0x4001));
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(f16)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(f16, 1))};
}
inline F32x16 load_bf16_even(const uint16_t* p) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(load_256(p), 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(load_256(p + 16), 16))};
}
inline F32x16 load_bf16_odd(const uint16_t* p) {
  const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_and_si256(load_256(p), high)),
          _mm256_castsi256_ps(_mm256_and_si256(load_256(p + 16), high))};
}
inline void store(float* p, F32x16 v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
inline void store_first(float* p, F32x16 v, uint32_t n) {
  const auto lanes = static_cast<int32_t>(n);
  _mm256_maskstore_ps(p, lanes_below(lanes), v.lo);
  _mm256_maskstore_ps(p + 8, lanes_below(lanes - 8), v.hi);
}
// Does the same as f32_to_bf16(), in 32-bit lanes.
inline __m256i round_bf16(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, is_nan);
}
inline void store_bf16(uint16_t* p, F32x16 v) {
  const __m256i packed = _mm256_packus_epi32(round_bf16(v.lo), round_bf16(v.hi));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

inline F32x16 add(F32x16 a, F32x16 b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
inline F32x16 abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
inline F32x16 select_ge(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ))};
}
inline __m256 lanes_between(int32_t begin, int32_t end) {
  return _mm256_castsi256_ps(_mm256_andnot_si256(lanes_below(begin), lanes_below(end)));
}
inline F32x16 select_range(uint32_t begin, uint32_t end, F32x16 x, F32x16 y) {
  const auto b = static_cast<int32_t>(begin);
  const auto e = static_cast<int32_t>(end);
  return {_mm256_blendv_ps(y.lo, x.lo, lanes_between(b, e)),
          _mm256_blendv_ps(y.hi, x.hi, lanes_between(b - 8, e - 8))};
}
// Returns a mask of the lanes whose bit is set in the lowest byte of `bits`.
inline __m256 lanes_of_bits(uint32_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int32_t>(bits)), lane);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane));
}
inline F32x16 select_bits(uint32_t bits, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.lo, x.lo, lanes_of_bits(bits)),
          _mm256_blendv_ps(y.hi, x.hi, lanes_of_bits(bits >> 8))};
}

template <int kPick>
inline __m256 every_other(__m256 a, __m256 b) {
  const __m256d pairs = _mm256_castps_pd(_mm256_shuffle_ps(a, b, kPick));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(pairs, 0xd8));
}
inline F32x16 even_lanes(F32x16 a, F32x16 b) {
  return {every_other<0x88>(a.lo, a.hi), every_other<0x88>(b.lo, b.hi)};
}
inline F32x16 odd_lanes(F32x16 a, F32x16 b) {
  return {every_other<0xdd>(a.lo, a.hi), every_other<0xdd>(b.lo, b.hi)};
}
inline F32x16 interleave(__m256 a, __m256 b) {
  const __m256 low = _mm256_unpacklo_ps(a, b);
  const __m256 high = _mm256_unpackhi_ps(a, b);
  return {_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31)};
}
inline F32x16 interleave_low(F32x16 a, F32x16 b) { return interleave(a.lo, b.lo); }
inline F32x16 interleave_high(F32x16 a, F32x16 b) { return interleave(a.hi, b.hi); }
// Even lanes, then odd lanes: two operations instead of four, two of which cross the halves of a
// register.
inline F32x16 load_bf16_shuffled(const uint16_t* p) {
  const __m256i pairs = load_256(p);
  const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)),
          _mm256_castsi256_ps(_mm256_and_si256(pairs, high))};
}
inline F32x16 shuffled(F32x16 v) {
  return {every_other<0x88>(v.lo, v.hi), every_other<0xdd>(v.lo, v.hi)};
}
inline F32x16 unshuffled(F32x16 v) { return interleave(v.lo, v.hi); }

inline I32x16 round_to_i32(F32x16 a) {
  return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)};
}
inline F32x16 to_f32(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
inline F32x16 exponent_from_low_bits(F32x16 a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a.lo), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a.hi), 23))};
}
inline F32x16 float_of_bits(I32x16 a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}
inline __m256 ceil_power_of_2(__m256 a) {
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffff));
  const __m256i exponent = _mm256_set1_epi32(static_cast<int32_t>(0xff800000u));
  return _mm256_castsi256_ps(_mm256_and_si256(bits, exponent));
}
inline F32x16 ceil_power_of_2(F32x16 a) { return {ceil_power_of_2(a.lo), ceil_power_of_2(a.hi)}; }
inline F32x16 fraction(F32x16 a) {
  const F32x16 rounder = set1(0x1.8p+23f);
  return sub(a, sub(add(a, rounder), rounder));
}
inline __m256 add_exponent(__m256 a, __m256 n) {
  const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), exponent));
}
inline F32x16 add_exponent(F32x16 a, F32x16 n) {
  return {add_exponent(a.lo, n.lo), add_exponent(a.hi, n.hi)};
}
inline void store_i8(int8_t* p, I32x16 v) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.lo, v.hi), 0xd8);
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

inline float sum_lanes(F32x16 v) {
  const __m256 s8 = _mm256_add_ps(v.lo, v.hi);
  const __m128 s4 = _mm_add_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_add_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_add_ss(s2, _mm_movehdup_ps(s2)));
}
inline float max_lanes(F32x16 v) {
  const __m256 s8 = _mm256_max_ps(v.lo, v.hi);
  const __m128 s4 = _mm_max_ps(_mm256_castps256_ps128(s8), _mm256_extractf128_ps(s8, 1));
  const __m128 s2 = _mm_max_ps(s4, _mm_movehl_ps(s4, s4));
  return _mm_cvtss_f32(_mm_max_ss(s2, _mm_movehdup_ps(s2)));
}
