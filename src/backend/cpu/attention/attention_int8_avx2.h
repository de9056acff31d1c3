#pragma once

#include "backend/cpu/isa/vec_avx2.h"

// The functions of attention_int8_scalar.h in AVX2. The comments are in attention_int8_scalar.h.
namespace kvik::cpu::avx2 {

struct KeyBytes {
  __m256i lo, hi;  // levels: the bytes less 128
};
inline KeyBytes load_keys(const uint8_t* p) {
  const __m256i offset = _mm256_set1_epi8(-128);
  return {_mm256_xor_si256(load_256(p), offset), _mm256_xor_si256(load_256(p + 32), offset)};
}

inline void unpack_nibbles(const uint8_t* packed, uint8_t offset, uint8_t* low, uint8_t* high) {
  const __m256i mask = _mm256_set1_epi8(30);
  const __m256i add = _mm256_set1_epi8(static_cast<char>(offset));
  for (uint32_t i = 0; i < 64; i += 32) {
    const __m256i bytes = load_256(packed + i);
    const __m256i lows = _mm256_and_si256(_mm256_add_epi8(bytes, bytes), mask);
    const __m256i highs = _mm256_and_si256(_mm256_srli_epi16(bytes, 3), mask);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(low + i), _mm256_add_epi8(lows, add));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(high + i), _mm256_add_epi8(highs, add));
  }
}

inline constexpr uint32_t kMaxChannels = 64;
struct ChannelSteps {
  alignas(32) uint16_t first[kMaxChannels], step[kMaxChannels];
};
inline ChannelSteps channel_steps(const uint8_t* firsts, const uint8_t* steps, uint32_t n) {
  ChannelSteps out;
  const auto words = [](const uint8_t* p) {
    return _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  };
  for (uint32_t j = 0; j < n; j += 8) {
    const __m128i first = _mm_or_si128(_mm_slli_epi16(words(firsts + j), 8), _mm_set1_epi16(128));
    const __m128i step = _mm_mullo_epi16(words(steps + j), _mm_set1_epi16(17));
    _mm_store_si128(reinterpret_cast<__m128i*>(out.first + j), first);
    _mm_store_si128(reinterpret_cast<__m128i*>(out.step + j), step);
  }
  return out;
}
inline __m256i four_words(const uint16_t* p) {
  int64_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm256_set1_epi64x(four);
}
inline __m256i channel_levels(__m256i nibbles, __m256i first, __m256i step) {
  const __m256i zero = _mm256_setzero_si256();
  const auto levels = [&](__m256i words) {
    return _mm256_srli_epi16(_mm256_add_epi16(_mm256_mullo_epi16(words, step), first), 8);
  };
  return _mm256_packus_epi16(levels(_mm256_unpacklo_epi8(nibbles, zero)),
                             levels(_mm256_unpackhi_epi8(nibbles, zero)));
}
inline void unpack_channel_nibbles(const uint8_t* packed, const ChannelSteps& of, uint32_t channel,
                                   uint8_t* levels) {
  const __m256i mask = _mm256_set1_epi8(15);
  const __m256i low_first = four_words(of.first + channel);
  const __m256i low_step = four_words(of.step + channel);
  const __m256i high_first = four_words(of.first + channel + 4);
  const __m256i high_step = four_words(of.step + channel + 4);
  for (uint32_t i = 0; i < 64; i += 32) {
    const __m256i bytes = load_256(packed + i);
    const __m256i lows = _mm256_and_si256(bytes, mask);
    const __m256i highs = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(levels + i),
                        channel_levels(lows, low_first, low_step));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(levels + 64 + i),
                        channel_levels(highs, high_first, high_step));
  }
}

struct QueryWord {
  __m256i levels;
};
inline QueryWord query_word(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return {_mm256_set1_epi32(four)};
}

using IntSums = I32x16;
inline I32x16 end_sums(IntSums sums) { return sums; }
inline IntSums zero_sums() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline IntSums begin_keys(int32_t) { return zero_sums(); }

// GCC would otherwise add up the products of several iterations in another order, for which it
// keeps them on the stack.
inline __m256i add_in_order(__m256i sum, __m256i x) {
  sum = _mm256_add_epi32(sum, x);
  asm("" : "+x"(sum));
  return sum;
}

// VPMADDUBSW adds pairs of products in 16 bits. Multiplying the unsigned |k| ≤ 128 by q with the
// sign of k, |q| ≤ 127, gives at most 32512 per pair.
inline __m256i add_key_pairs(__m256i sum, __m256i k, __m256i q) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(k), _mm256_sign_epi8(q, k));
  return add_in_order(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
inline IntSums dot_keys(IntSums sums, KeyBytes keys, QueryWord q) {
  return {add_key_pairs(sums.lo, keys.lo, q.levels), add_key_pairs(sums.hi, keys.hi, q.levels)};
}

// Levels are 16-bit words, each four in the order of tokens 0 2 1 3, because V is widened to even
// and odd tokens.
inline constexpr uint32_t kLevelPlanes = 1;
inline constexpr uint32_t kLevelStride = 512 * 2 + 64;

inline void store_half(uint8_t* out, I32x16 levels) {
  const __m256i packed = _mm256_packs_epi32(levels.lo, levels.hi);
  const __m256i words = _mm256_permute4x64_epi64(packed, 0xd8);
  const __m256i swapped = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), swapped);
}
enum class LevelPlanes { kLow, kBoth };
template <LevelPlanes kPlanes>
inline void store_levels(uint8_t* row, uint32_t t, const I32x16 (&levels)[4]) {
  for (uint32_t i = 0; i < 4; ++i) store_half(row + 2 * t + 32 * i, levels[i]);
}
inline uint32_t levels_of_page(uint32_t t) { return 2 * t; }
inline void clear_high_groups(uint8_t*) {}
inline uint64_t high_groups(const uint8_t*, uint32_t) { return 0; }

inline void transpose_keys(const uint8_t* keys, int8_t* values) {
  const __m128i transpose_order =
      _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m128i offset = _mm_set1_epi8(-128);
  for (uint32_t word = 0; word < 4; ++word) {
    for (uint32_t four = 0; four < 4; ++four) {
      const auto* from = reinterpret_cast<const __m128i*>(keys + 64 * word + 16 * four);
      const __m128i bytes = _mm_shuffle_epi8(_mm_loadu_si128(from), transpose_order);
      auto* to = reinterpret_cast<__m128i*>(values + 64 * four + 16 * word);
      _mm_storeu_si128(to, _mm_xor_si128(bytes, offset));
    }
  }
}

struct ValueBytes {
  __m256i even_lo, odd_lo, even_hi, odd_hi;
};
inline __m256i even_bytes(__m256i v) { return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8); }
inline ValueBytes load_values(const int8_t* p) {
  const __m256i lo = load_256(p);
  const __m256i hi = load_256(p + 32);
  return {even_bytes(lo), _mm256_srai_epi16(lo, 8), even_bytes(hi), _mm256_srai_epi16(hi, 8)};
}

template <bool kHigh>
inline ValueBytes load_value_nibbles(const uint8_t* p) {
  const __m256i mask = _mm256_set1_epi16(15);
  const __m256i lo = load_256(p);
  const __m256i hi = load_256(p + 32);
  const auto even = [&](__m256i v) {
    return _mm256_and_si256(kHigh ? _mm256_srli_epi16(v, 4) : v, mask);
  };
  const auto odd = [&](__m256i v) {
    return kHigh ? _mm256_srli_epi16(v, 12) : _mm256_and_si256(_mm256_srli_epi16(v, 8), mask);
  };
  return {even(lo), odd(lo), even(hi), odd(hi)};
}

struct LevelWord {
  __m256i even, odd;
};
template <uint32_t kPlane>
inline LevelWord level_word(const uint8_t* page, uint32_t group) {
  // Loads them as floats, because GCC loads two integers as one and takes it apart again.
  const auto* pairs = reinterpret_cast<const float*>(page) + 2 * group;
  return {_mm256_castps_si256(_mm256_broadcast_ss(pairs)),
          _mm256_castps_si256(_mm256_broadcast_ss(pairs + 1))};
}

inline IntSums next_plane(IntSums sums) { return sums; }
inline IntSums twice_plus(IntSums sums, int32_t offset) {
  const __m256i more = _mm256_set1_epi32(offset);
  return {_mm256_add_epi32(_mm256_slli_epi32(sums.lo, 1), more),
          _mm256_add_epi32(_mm256_slli_epi32(sums.hi, 1), more)};
}
inline IntSums dot_values(IntSums sums, const ValueBytes& v, LevelWord w) {
  sums.lo = add_in_order(sums.lo, _mm256_madd_epi16(v.even_lo, w.even));
  sums.hi = add_in_order(sums.hi, _mm256_madd_epi16(v.even_hi, w.even));
  sums.lo = add_in_order(sums.lo, _mm256_madd_epi16(v.odd_lo, w.odd));
  sums.hi = add_in_order(sums.hi, _mm256_madd_epi16(v.odd_hi, w.odd));
  return sums;
}

}  // namespace kvik::cpu::avx2
