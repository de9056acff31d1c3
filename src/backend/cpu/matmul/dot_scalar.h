#pragma once

#include "backend/cpu/isa/vec_scalar.h"

// Sums of products of small integers: the specification of dot_avx2.h, dot_avxvnni.h and
// dot_avx512.h.
//
// A block has 32 k of 32 columns, in groups of 4 k. The four levels of a column in a group are
// adjacent. A kernel computes 16 columns (half a panel) and processes the groups in eight steps:
//   Sums s = begin(start);
//   for each step: s = add(s, load(block, half, step), broadcast_levels(x of group_of(step)));
//   I32x16 sum = end(s, start, shift);
// Integer sums are exact, so their order is arbitrary. But if a type has a scale for each 16 k
// (DotQ6), the first four steps are the first 16 k.
//
// `start` is the activations' word kStartWord: the bits of the float `shift`, minus the weights'
// offset · Σ x. The bits that result are those of a float that exceeds `shift` by Σ w · x times the
// block's power of two (matmul_kernels.h).
namespace kvik::cpu::scalar {

inline constexpr uint32_t kGroupBytes = 2 * kLanes * 4;

struct Levels4 {  // four activations
  int8_t level[4];
};
inline Levels4 broadcast_levels(const int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }

struct Weights4 {  // four weights per lane
  uint8_t weight[kLanes][4];
};

// Multiplies four unsigned weights per lane by four activations, and adds the products to the lane.
struct UnsignedSums {
  using Weights = Weights4;
  using Sums = I32x16;
  static Sums begin(int32_t start) {
    Sums s;
    for (uint32_t i = 0; i < kLanes; ++i) s.lane[i] = start;
    return s;
  }
  static Sums add(Sums s, const Weights& w, Levels4 x) {
    for (uint32_t i = 0; i < kLanes; ++i) {
      for (uint32_t j = 0; j < 4; ++j) s.lane[i] += w.weight[i][j] * x.level[j];
    }
    return s;
  }
  static I32x16 end(Sums s, int32_t, float) { return s; }
};

// Levels as [8 groups][32 columns][4] bytes. They are at most kMost, or less than 16 for DotBytes4.
template <uint32_t kStart, uint32_t kMost = 255>
struct DotBytes : UnsignedSums {
  static constexpr uint32_t kStartWord = kStart;
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w;
    const uint8_t* p = block + kGroupBytes * step + 4 * kLanes * half;
    for (uint32_t i = 0; i < 64; ++i) w.weight[i / 4][i % 4] = p[i];
    return w;
  }
};
template <uint32_t kStart>
using DotBytes4 = DotBytes<kStart>;

// [8 groups][32 columns][4] bytes, each a signed level plus 128.
struct DotQ8 : DotBytes<2> {
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t i = 0; i < kBlockBytes; ++i) out[i] = block[i];
  }
};

// Converts a block of the type's own layout to that of DotBytes.
template <class Dot>
inline void widen_levels(const uint8_t* block, uint8_t* out) {
  for (uint32_t step = 0; step < 8; ++step) {
    for (uint32_t half = 0; half < 2; ++half) {
      const Weights4 w = Dot::load(block, half, step);
      uint8_t* to = out + kGroupBytes * Dot::group_of(step) + 4 * kLanes * half;
      for (uint32_t i = 0; i < 64; ++i) to[i] = w.weight[i / 4][i % 4];
    }
  }
}

// [4][32 columns][4] bytes: byte j of group g holds group g in its low half and group g + 4 in its
// high half.
template <uint32_t kStart>
struct DotQ4 : UnsignedSums {
  static constexpr uint32_t kStartWord = kStart;
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t group_of(uint32_t step) { return step / 2 + 4 * (step % 2); }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w;
    const uint8_t* p = block + kGroupBytes * (step / 2) + 4 * kLanes * half;
    const uint32_t shift = 4 * (step % 2);
    for (uint32_t i = 0; i < 64; ++i) w.weight[i / 4][i % 4] = (p[i] >> shift) & 15;
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ4>(block, out); }
};

// Like DotQ4, but followed by the fifth bits as [8 groups][2 halves][64] bits: bit 4c + j belongs
// to byte j of column c.
struct DotQ5 : DotQ4<0> {
  static constexpr uint32_t kBlockBytes = 512 + 128;
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w = DotQ4::load(block, half, step);
    const uint8_t* bits = block + 512 + 16 * group_of(step) + 8 * half;
    for (uint32_t i = 0; i < 64; ++i) {
      w.weight[i / 4][i % 4] |= static_cast<uint8_t>((bits[i / 8] >> (i % 8) & 1) << 4);
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ5>(block, out); }
};

// Like DotQ4, but followed by the upper two bits as [2][32 columns][4] bytes: each byte of the
// first has those of groups 0, 1, 2, 3 from its low bits up, each byte of the second those of
// groups 4, 5, 6, 7.
struct DotQ6 : UnsignedSums {
  static constexpr uint32_t kStartWord = 2;
  static constexpr uint32_t kBlockBytes = 512 + 256;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t half, uint32_t step) {
    Weights w;
    const uint8_t* low = block + kGroupBytes * (step % 4) + 4 * kLanes * half;
    const uint8_t* high = block + 512 + kGroupBytes * (step / 4) + 4 * kLanes * half;
    for (uint32_t i = 0; i < 64; ++i) {
      const int upper = high[i] >> (2 * (step % 4)) & 3;
      w.weight[i / 4][i % 4] = static_cast<uint8_t>((low[i] >> (step / 4 * 4) & 15) | upper << 4);
    }
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) { widen_levels<DotQ6>(block, out); }
};

}  // namespace kvik::cpu::scalar
