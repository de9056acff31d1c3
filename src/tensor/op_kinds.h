#pragma once

#include <cstdint>

namespace kvik {

// Variants of operations that a model's config names and a backend computes.
enum class RopePairing : uint8_t { kInterleaved, kHalves };  // (2i, 2i+1), or (i, i + n_pairs)
// kClampedSwish: of x = min(gate, 7) and y = up within ±7, x · sigmoid(1.702 x) · (y + 1)
// (gpt-oss). kSigmoid: y / (1 + e^-x). kNone: x · y. kReluSquared: max(x, 0)² of the one there is
// (So et al. 2021; Nemotron-H).
enum class Activation : uint8_t {
  kSilu,
  kGeluTanh,
  kClampedSwish,
  kSigmoid,
  kNone,
  kReluSquared,
};

// Whether a feed-forward with it has two projections to its width, the gate's and the other.
constexpr bool has_gate(Activation activation) { return activation != Activation::kReluSquared; }

}  // namespace kvik
