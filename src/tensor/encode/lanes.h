#pragma once

#include <cstdint>

// Sixteen floats that undergo the same operations, one sub-block per lane. A search over scales has
// no sums across lanes, so it gives the same bits with every register width. Everything here is
// inlined into functions compiled for one instruction set each.
#pragma GCC diagnostic ignored "-Wpsabi"

#define KVIK_LANES_INLINE [[gnu::always_inline]] inline

namespace kvik::encode {

inline constexpr int kLanes = 16;
using Lanes [[gnu::vector_size(64)]] = float;
using LaneMask [[gnu::vector_size(64)]] = int32_t;  // all bits set if true

using LaneBytes [[gnu::vector_size(16)]] = uint8_t;

KVIK_LANES_INLINE Lanes splat(float value) { return Lanes{} + value; }
KVIK_LANES_INLINE Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
KVIK_LANES_INLINE Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
KVIK_LANES_INLINE Lanes magnitude(Lanes a) { return a < 0.0f ? -a : a; }

// Returns a / b, or 0 if b is 0.
KVIK_LANES_INLINE Lanes divide(Lanes a, Lanes b) {
  const LaneMask is_zero = b == 0.0f;
  const Lanes quotient = a / (is_zero ? splat(1) : b);
  return is_zero ? Lanes{} : quotient;
}

// Returns the nearest integer in [low, high], with ties to even. low and high must be integers.
KVIK_LANES_INLINE Lanes nearest(Lanes value, float low, float high) {
  constexpr float kNoFraction = 12582912.0f;  // 1.5 · 2^23: floats of this size are integers
  const Lanes inside = smaller(larger(value, splat(low)), splat(high));
  return (inside + kNoFraction) - kNoFraction;
}

}  // namespace kvik::encode
