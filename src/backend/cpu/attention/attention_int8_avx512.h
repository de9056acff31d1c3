#pragma once

#include "backend/cpu/isa/vec_avx512.h"

// The functions of attention_int8_scalar.h with VPDPBUSD. The comments are in
// attention_int8_scalar.h.
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

inline constexpr uint32_t kMaxChannels = 64;  // so many that their bytes fill a vector
// Steps of the even channels, then of the odd channels.
struct ChannelSteps {
  alignas(64) uint8_t first[64];
  alignas(64) uint16_t step[2][32];
};
inline ChannelSteps channel_steps(const uint8_t* firsts, const uint8_t* steps, uint32_t n) {
  ChannelSteps out;
  const __mmask64 is_channel = n < 64 ? (__mmask64{1} << n) - 1 : ~__mmask64{0};
  const __m512i step = _mm512_maskz_loadu_epi8(is_channel, steps);
  const auto of_step = [](__m512i words) {
    return _mm512_mullo_epi16(words, _mm512_set1_epi16(17));
  };
  _mm512_store_si512(out.first, _mm512_maskz_loadu_epi8(is_channel, firsts));
  _mm512_store_si512(out.step[0], of_step(_mm512_and_si512(step, _mm512_set1_epi16(255))));
  _mm512_store_si512(out.step[1], of_step(_mm512_srli_epi16(step, 8)));
  return out;
}
// even, odd: nibbles of two channels in each word, for sixteen tokens, times 128. VPMULHRSW divides
// by 2^15 and rounds half up, which gives the level without the first one.
inline __m512i channel_levels(__m512i even, __m512i odd, const ChannelSteps& of, uint32_t channel) {
  const auto four_bytes = [](const void* p) {
    int32_t four;
    __builtin_memcpy(&four, p, sizeof(four));
    return _mm512_set1_epi32(four);
  };
  even = _mm512_mulhrs_epi16(even, four_bytes(of.step[0] + channel / 2));
  odd = _mm512_mulhrs_epi16(odd, four_bytes(of.step[1] + channel / 2));
  const __m512i both = _mm512_or_si512(even, _mm512_slli_epi16(odd, 8));
  return _mm512_add_epi8(both, four_bytes(of.first + channel));
}
inline void unpack_channel_nibbles(const uint8_t* packed, const ChannelSteps& of, uint32_t channel,
                                   uint8_t* levels) {
  const __m512i mask = _mm512_set1_epi16(15 * 128);
  __m512i words = _mm512_loadu_si512(packed);
  asm("" : "+v"(words));  // GCC would load them for each shift
  const auto nibbles = [&](__m512i shifted) { return _mm512_and_si512(shifted, mask); };
  const __m512i low = channel_levels(nibbles(_mm512_slli_epi16(words, 7)),
                                     nibbles(_mm512_srli_epi16(words, 1)), of, channel);
  const __m512i high = channel_levels(nibbles(_mm512_slli_epi16(words, 3)),
                                      nibbles(_mm512_srli_epi16(words, 5)), of, channel + 4);
  _mm512_storeu_si512(levels, low);
  _mm512_storeu_si512(levels + 64, high);
}

using QueryWord = __m512i;
inline QueryWord query_word(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof(four));
  return _mm512_set1_epi32(four);
}

// Not I32x16, because GCC 12 keeps arrays of that type in memory.
using IntSums = __m512i;
inline IntSums zero_sums() { return _mm512_setzero_si512(); }
inline I32x16 end_sums(IntSums sums) { return {sums}; }
inline IntSums begin_keys(int32_t minus_128_levels) { return _mm512_set1_epi32(minus_128_levels); }
inline IntSums dot_keys(IntSums sums, KeyBytes keys, QueryWord q) {
  return _mm512_dpbusd_epi32(sums, keys, q);
}

// Levels are two planes of unsigned bytes, the high bytes first, which are multiplied by signed V.
// Widening V to 16 bits for VPDPWSSD would take as many instructions, but never fewer, whereas
// high bytes of zero are skipped here: after the planes follows a bit for each four tokens, which
// is set if they have others.
inline constexpr uint32_t kLevelPlanes = 2;
inline constexpr uint32_t kLevelPlaneBytes = 512;
inline constexpr uint32_t kHighGroupsAt = 2 * kLevelPlaneBytes;
inline constexpr uint32_t kLevelStride = 2 * kLevelPlaneBytes + 64;

enum class LevelPlanes { kLow, kBoth };

// Packing keeps four tokens together, but leaves the groups of four of vectors a to d in the order
// a0 b0 c0 d0 a1 b1 …
inline __m512i pack_in_order(__m512i ab, __m512i cd) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd));
}
template <LevelPlanes kPlanes>
inline void store_levels(uint8_t* row, uint32_t t, const I32x16 (&levels)[4]) {
  const __m512i ab = _mm512_packus_epi32(levels[0].v, levels[1].v);
  const __m512i cd = _mm512_packus_epi32(levels[2].v, levels[3].v);
  if constexpr (kPlanes == LevelPlanes::kLow) {
    _mm512_storeu_si512(row + kLevelPlaneBytes + t, pack_in_order(ab, cd));
  } else {
    const __m512i low = _mm512_set1_epi16(255);
    const __m512i high = pack_in_order(_mm512_srli_epi16(ab, 8), _mm512_srli_epi16(cd, 8));
    const __mmask16 used = _mm512_test_epi32_mask(high, high);
    _mm512_storeu_si512(row + t, high);
    __builtin_memcpy(row + kHighGroupsAt + t / 32, &used, sizeof(used));
    _mm512_storeu_si512(row + kLevelPlaneBytes + t,
                        pack_in_order(_mm512_and_si512(ab, low), _mm512_and_si512(cd, low)));
  }
}
inline uint32_t levels_of_page(uint32_t t) { return t; }
inline void clear_high_groups(uint8_t* row) {
  __builtin_memset(row + kHighGroupsAt, 0, kLevelPlaneBytes / 32);
}
inline uint64_t high_groups(const uint8_t* row, uint32_t word) {
  uint64_t bits;
  __builtin_memcpy(&bits, row + kHighGroupsAt + 8 * word, sizeof(bits));
  return bits;
}

// Transposes 4 × 4 bytes within each 16 bytes, then the groups of four.
inline void transpose_keys(const uint8_t* keys, int8_t* values) {
  const __m512i transpose_order =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i offset = _mm512_set1_epi8(-128);
  __m512i words[4];
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; ++i) {
    const __m512i bytes = _mm512_shuffle_epi8(_mm512_loadu_si512(keys + 64 * i), transpose_order);
    words[i] = _mm512_xor_si512(bytes, offset);
  }
  const __m512i low_01 = _mm512_shuffle_i32x4(words[0], words[1], 0x44);
  const __m512i high_01 = _mm512_shuffle_i32x4(words[0], words[1], 0xee);
  const __m512i low_23 = _mm512_shuffle_i32x4(words[2], words[3], 0x44);
  const __m512i high_23 = _mm512_shuffle_i32x4(words[2], words[3], 0xee);
  _mm512_storeu_si512(values, _mm512_shuffle_i32x4(low_01, low_23, 0x88));
  _mm512_storeu_si512(values + 64, _mm512_shuffle_i32x4(low_01, low_23, 0xdd));
  _mm512_storeu_si512(values + 128, _mm512_shuffle_i32x4(high_01, high_23, 0x88));
  _mm512_storeu_si512(values + 192, _mm512_shuffle_i32x4(high_01, high_23, 0xdd));
}

using ValueBytes = __m512i;
inline ValueBytes load_values(const int8_t* p) { return _mm512_loadu_si512(p); }

template <bool kHigh>
inline ValueBytes load_value_nibbles(const uint8_t* p) {
  const __m512i bytes = _mm512_loadu_si512(p);
  return _mm512_and_si512(kHigh ? _mm512_srli_epi16(bytes, 4) : bytes, _mm512_set1_epi8(15));
}

using LevelWord = __m512i;
template <uint32_t kPlane>
inline LevelWord level_word(const uint8_t* page, uint32_t group) {
  int32_t four;
  __builtin_memcpy(&four, page + kPlane * kLevelPlaneBytes + 4 * group, sizeof(four));
  return _mm512_set1_epi32(four);
}

inline IntSums next_plane(IntSums sums) { return _mm512_slli_epi32(sums, 8); }
inline IntSums twice_plus(IntSums sums, int32_t offset) {
  return _mm512_add_epi32(_mm512_slli_epi32(sums, 1), _mm512_set1_epi32(offset));
}
inline IntSums dot_values(IntSums sums, ValueBytes values, LevelWord word) {
  return _mm512_dpbusd_epi32(sums, word, values);
}

}  // namespace kvik::cpu::avx512
