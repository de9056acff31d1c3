#pragma once

#include "backend/cpu/isa/vec_scalar.h"

// Integer part of attention over quantized pages: the specification of attention_int8_avx2.h and
// attention_int8_avx512.h. Sums are exact, so other instruction sets may use any order and any
// representation of the levels.
namespace kvik::cpu::scalar {

// Four dimensions of the K of sixteen tokens. Each byte is its level plus 128.
struct KeyBytes {
  uint8_t byte[kLanes][4];
};
inline KeyBytes load_keys(const uint8_t* p) {
  KeyBytes keys;
  __builtin_memcpy(keys.byte, p, sizeof(keys.byte));
  return keys;
}

// Unpacks 64 bytes of two nibbles each: low[i] = 2 · low nibble + offset, and high[i] likewise,
// modulo 256.
inline void unpack_nibbles(const uint8_t* packed, uint8_t offset, uint8_t* low, uint8_t* high) {
  for (uint32_t i = 0; i < 64; ++i) {
    low[i] = static_cast<uint8_t>(2 * (packed[i] & 15) + offset);
    high[i] = static_cast<uint8_t>(2 * (packed[i] >> 4) + offset);
  }
}

// Maximum number of channels of K that are unpacked together.
inline constexpr uint32_t kMaxChannels = 64;
// Nibble n represents the level (first + n · step) / 256, rounded down. `first` includes 128, so
// that the level is rounded to nearest.
struct ChannelSteps {
  uint32_t first[kMaxChannels], step[kMaxChannels];
};
// Converts the bytes of a page (ChannelBlock::channels). firsts, steps: [n], n a multiple of 8.
inline ChannelSteps channel_steps(const uint8_t* firsts, const uint8_t* steps, uint32_t n) {
  ChannelSteps out;
  for (uint32_t j = 0; j < n; ++j) {
    out.first[j] = 256u * firsts[j] + 128u;
    out.step[j] = 17u * steps[j];
  }
  return out;
}
// Unpacks 64 bytes of two nibbles each, for sixteen tokens. The low nibbles belong to four channels
// starting at `channel` and become levels[0 … 63]; the high nibbles belong to the next four
// channels and become levels[64 … 127].
inline void unpack_channel_nibbles(const uint8_t* packed, const ChannelSteps& of, uint32_t channel,
                                   uint8_t* levels) {
  const auto level = [&](uint32_t c, uint32_t nibble) {
    return static_cast<uint8_t>((of.first[c] + of.step[c] * nibble) / 256);
  };
  for (uint32_t i = 0; i < 64; ++i) {
    levels[i] = level(channel + i % 4, packed[i] & 15u);
    levels[64 + i] = level(channel + 4 + i % 4, packed[i] >> 4);
  }
}

// Four levels of a query, broadcast to all lanes.
struct QueryWord {
  int8_t level[4];
};
inline QueryWord query_word(const int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }

using IntSums = I32x16;
inline I32x16 end_sums(IntSums sums) { return sums; }

// Returns the initial sums. Each lane adds up byte · level, which is (level of K + 128) · level, so
// its sum begins with −128 · Σ level.
inline IntSums begin_keys(int32_t minus_128_levels) {
  IntSums sums;
  for (uint32_t i = 0; i < kLanes; ++i) sums.lane[i] = minus_128_levels;
  return sums;
}
inline IntSums dot_keys(IntSums sums, const KeyBytes& keys, QueryWord q) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t j = 0; j < 4; ++j) sums.lane[i] += keys.byte[i][j] * q.level[j];
  }
  return sums;
}

// Levels of the weights, 0 … 32767, of the 512 tokens of one row of a split. Each instruction set
// has its own representation with kLevelPlanes planes. The sums of the planes are computed in
// order:
//   sums = 0; for each plane: { sums = next_plane(sums); for each word: sums = dot_values(…) }
// Rows are kLevelStride bytes apart. That is not a power of two, because rows would then compete
// for the same cache sets.
inline constexpr uint32_t kLevelPlanes = 1;
inline constexpr uint32_t kLevelStride = 512 * 2 + 64;

// kLow if no level of a chunk exceeds 255, so that the last plane suffices.
enum class LevelPlanes { kLow, kBoth };

// Stores the levels of two pages starting at token t of the split.
template <LevelPlanes kPlanes>
inline void store_levels(uint8_t* row, uint32_t t, const I32x16 (&levels)[4]) {
  int16_t words[4 * kLanes];
  for (uint32_t i = 0; i < 4 * kLanes; ++i) {
    words[i] = static_cast<int16_t>(levels[i / kLanes].lane[i % kLanes]);
  }
  __builtin_memcpy(row + 2 * t, words, sizeof(words));
}
// Returns the offset, in a row, of the levels of the page that begins with token t.
inline uint32_t levels_of_page(uint32_t t) { return 2 * t; }
// With two planes: the bits of the groups of four tokens whose levels in the first plane are not
// all zero. Storing levels of both planes sets them; the others stay clear.
inline void clear_high_groups(uint8_t*) {}
inline uint64_t high_groups(const uint8_t*, uint32_t) { return 0; }

// Transposes sixteen dimensions of the K of sixteen tokens to levels of V. keys: [4][16 tokens][4]
// bytes, each its level plus 128; values: [4][16 dimensions][4 tokens].
inline void transpose_keys(const uint8_t* keys, int8_t* values) {
  for (uint32_t token = 0; token < kLanes; ++token) {
    for (uint32_t d = 0; d < kLanes; ++d) {
      values[token / 4 * 64 + d * 4 + token % 4] =
          static_cast<int8_t>(keys[d / 4 * 64 + token * 4 + d % 4] - 128);
    }
  }
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
// The same from 64 bytes of two nibbles each: the low or the high nibbles.
template <bool kHigh>
inline ValueBytes load_value_nibbles(const uint8_t* p) {
  ValueBytes values;
  for (uint32_t i = 0; i < 4 * kLanes; ++i) {
    values.level[i / 4][i % 4] = static_cast<int8_t>(kHigh ? p[i] >> 4 : p[i] & 15);
  }
  return values;
}
// Levels of the weights of tokens 4 · group … of the page whose levels begin at `page`, for all
// lanes.
struct LevelWord {
  int16_t level[4];
};
template <uint32_t kPlane>
inline LevelWord level_word(const uint8_t* page, uint32_t group) {
  LevelWord word;
  __builtin_memcpy(word.level, page + 8 * group, sizeof(word.level));
  return word;
}
inline IntSums zero_sums() { return begin_keys(0); }
inline IntSums next_plane(IntSums sums) { return sums; }
// Returns 2 · sums + offset.
inline IntSums twice_plus(IntSums sums, int32_t offset) {
  for (uint32_t i = 0; i < kLanes; ++i) sums.lane[i] = 2 * sums.lane[i] + offset;
  return sums;
}
inline IntSums dot_values(IntSums sums, const ValueBytes& values, LevelWord word) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    for (uint32_t j = 0; j < 4; ++j) sums.lane[i] += values.level[i][j] * word.level[j];
  }
  return sums;
}

}  // namespace kvik::cpu::scalar
