#pragma once

#include "tensor/encode/fit.h"

namespace kvik::encode {

// Levels of sixteen sub-blocks, relative to the lowest.
template <int kValues>
struct LevelsOf {
  LaneBytes of[kValues];

  KVIK_LANES_INLINE void set(int i, Lanes levels) {
    of[i] = __builtin_convertvector(__builtin_convertvector(levels, LaneMask), LaneBytes);
  }
  KVIK_LANES_INLINE int at(int sub_block, int i) const {
    return reinterpret_cast<const uint8_t*>(of)[i * kLanes + sub_block];
  }
  // Treats the sub-blocks as consecutive.
  KVIK_LANES_INLINE int at(int index) const { return at(index / kValues, index % kValues); }
};

template <int kValues>
KVIK_LANES_INLINE LevelsOf<kValues> levels_of_line(const SubBlocks<kValues>& s, const Line& line,
                                                   float top) {
  LevelsOf<kValues> levels;
  const Lanes inverse = divide(splat(1), line.scale);
  for (int i = 0; i < kValues; ++i) {
    levels.set(i, nearest((s.x[i] + line.minimum) * inverse, 0, top));
  }
  return levels;
}

template <int kValues>
KVIK_LANES_INLINE LevelsOf<kValues> levels_of_scale(const SubBlocks<kValues>& s, Lanes scale,
                                                    LevelRange range) {
  LevelsOf<kValues> levels;
  const Lanes inverse = divide(splat(1), scale);
  for (int i = 0; i < kValues; ++i) {
    levels.set(i, nearest(s.x[i] * inverse, range.low, range.high) - range.low);
  }
  return levels;
}

}  // namespace kvik::encode
