#pragma once

#include "backend/cpu/vec_scalar.h"

// The integer half of attention over int8 pages: the specification of attention_int8_avx2.h and
// attention_int8_avx512.h. Sums are exact, so any order and any way of holding the levels will do.
namespace kvik::cpu::scalar {

// Four dimensions of the K of sixteen tokens, each byte 128 more than its level.
struct KeyBytes {
  uint8_t byte[kLanes][4];
};
inline KeyBytes load_keys(const uint8_t* p) {
  KeyBytes keys;
  __builtin_memcpy(keys.byte, p, sizeof(keys.byte));
  return keys;
}

// Four levels that all lanes see.
struct QueryWord {
  int8_t level[4];
};
inline QueryWord query_word(const int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }

// Each lane's sum of (byte − 128) · level over all dimensions: begins with −128 · Σ level.
inline I32x16 begin_keys(int32_t minus_128_levels) {
  I32x16 sums;
  for (uint32_t i = 0; i < kLanes; ++i) sums.lane[i] = minus_128_levels;
  return sums;
}
inline I32x16 dot_keys(I32x16 sums, const KeyBytes& keys, QueryWord q) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t j = 0; j < 4; ++j) sums.lane[i] += keys.byte[i][j] * q.level[j];
  }
  return sums;
}

// Levels of weights, 0 … 32767, of the kSplitTokens tokens of one row, held as it suits the
// instruction set: in kLevelPlanes planes, whose sums follow each other as
//   sums = 0; for each plane: { sums = next_plane(sums); for each word: sums = dot_values(…) }
// Words that are all zero in a plane may be left out: with more than one plane, all but the last
// are zero where no level is above kLastPlaneMost.
inline constexpr uint32_t kLevelPlanes = 1;
inline constexpr int32_t kLastPlaneMost = 32767;
inline constexpr uint32_t kLevelRowBytes = 512 * 2;

// Sixteen neighbouring levels from token t on.
inline void store_levels(uint8_t* row, uint32_t t, I32x16 levels) {
  int16_t words[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) words[i] = static_cast<int16_t>(levels.lane[i]);
  __builtin_memcpy(row + 2 * t, words, sizeof(words));
}
inline bool any_above(I32x16 a, I32x16 b, int32_t limit) {
  bool any = false;
  for (uint32_t i = 0; i < kLanes; ++i) any = any || a.lane[i] > limit || b.lane[i] > limit;
  return any;
}

// The V of four tokens in sixteen dimensions.
struct ValueBytes {
  int8_t level[kLanes][4];
};
inline ValueBytes load_values(const int8_t* p) {
  ValueBytes values;
  __builtin_memcpy(values.level, p, sizeof(values.level));
  return values;
}
struct LevelWord {  // of four tokens, for all lanes
  int16_t level[4];
};
template <uint32_t kPlane>
inline LevelWord level_word(const uint8_t* row, uint32_t t) {
  LevelWord word;
  __builtin_memcpy(word.level, row + 2 * t, sizeof(word.level));
  return word;
}
inline I32x16 zero_sums() { return begin_keys(0); }
inline I32x16 next_plane(I32x16 sums) { return sums; }
inline I32x16 dot_values(I32x16 sums, const ValueBytes& values, LevelWord word) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t j = 0; j < 4; ++j) sums.lane[i] += values.level[i][j] * word.level[j];
  }
  return sums;
}

}  // namespace kvik::cpu::scalar
