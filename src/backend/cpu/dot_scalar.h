#pragma once

#include "backend/cpu/vec_scalar.h"

// Sums of products of small integers: the specification of dot_avx2.h and dot_avx512.h.
//
// A block is 32 k of 32 columns, in groups of 4 k: a column's four weights lie side by side. A
// kernel takes 16 of the columns and goes through the groups in `kSteps` steps, in any order, for
// integer sums are exact:
//   Sums s = begin(offset); for each step: s = add(s, load(block, step), broadcast(x of
//   group_of(step))); I32x16 sum = end(s, offset);
// where offset = −kOffset · Σ x, since the weights are stored with kOffset added.
namespace kvik::cpu::scalar {

inline constexpr uint32_t kGroupBytes = 2 * kLanes * 4;

struct Levels4 {  // four activations
  int8_t level[4];
};
inline Levels4 broadcast_levels(const int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }

// Four unsigned weights per lane, times four activations, added to the lane.
struct UnsignedSums {
  static constexpr uint32_t kSteps = 8;
  struct Weights {
    uint8_t weight[kLanes][4];
  };
  using Sums = I32x16;
  static Sums begin(int32_t offset) {
    Sums s;
    for (uint32_t i = 0; i < kLanes; ++i) s.lane[i] = offset;
    return s;
  }
  static Sums add(Sums s, const Weights& w, Levels4 x) {
    for (uint32_t i = 0; i < kLanes; ++i) {
      for (uint32_t j = 0; j < 4; ++j) s.lane[i] += w.weight[i][j] * x.level[j];
    }
    return s;
  }
  static I32x16 end(Sums s, int32_t) { return s; }
};

// [8 groups][32 columns][4] bytes, quant + 128.
struct DotQ8 : UnsignedSums {
  static constexpr uint32_t kBlockBytes = 1024;
  static constexpr uint32_t kOffset = 128;
  static constexpr uint32_t group_of(uint32_t step) { return step; }
  static Weights load(const uint8_t* block, uint32_t step) {
    Weights w;
    for (uint32_t i = 0; i < 64; ++i) w.weight[i / 4][i % 4] = block[kGroupBytes * step + i];
    return w;
  }
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t i = 0; i < kBlockBytes; ++i) out[i] = block[i];
  }
};

// [4][32 columns][4] bytes: byte j of group g holds group g in its low half, g + 4 in its high one.
struct DotQ4 : UnsignedSums {
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint32_t kOffset = 8;
  static constexpr uint32_t group_of(uint32_t step) { return step / 2 + 4 * (step % 2); }
  static Weights load(const uint8_t* block, uint32_t step) {
    Weights w;
    const uint32_t shift = 4 * (step % 2);
    for (uint32_t i = 0; i < 64; ++i) {
      w.weight[i / 4][i % 4] = (block[kGroupBytes * (step / 2) + i] >> shift) & 15;
    }
    return w;
  }
  // To the layout of DotWideQ4.
  static void widen(const uint8_t* block, uint8_t* out) {
    for (uint32_t i = 0; i < kBlockBytes; ++i) {
      out[i] = block[i] & 15;
      out[kBlockBytes + i] = block[i] >> 4;
    }
  }
};

// [8 groups][32 columns][4] bytes, quant + 8.
struct DotWideQ4 : DotQ8 {
  static constexpr uint32_t kOffset = 8;
};

}  // namespace kvik::cpu::scalar
