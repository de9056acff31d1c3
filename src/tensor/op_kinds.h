#pragma once

#include <cstdint>

namespace kvik {

// Variants of operations that a model's config selects and a backend computes.
enum class RopePairing : uint8_t { kInterleaved, kHalves };  // (2i, 2i+1), or (i, i + n_pairs)
// kClampedSwish: with x = min(gate, 7) and y = up clamped to ±7, x · sigmoid(1.702 x) · (y + 1)
// (gpt-oss). kSigmoid: y / (1 + e^-x). kNone: x · y. kReluSquared: max(x, 0)² of a single input (So
// et al. 2021; Nemotron-H). kGelu: x · Φ(x) of a single input (Hendrycks and Gimpel 2016);
// kGatedGelu: the same times y. kPlainGeluTanh: kGeluTanh of a single input. kXielu: a function
// with parameters, struct Xielu.
enum class Activation : uint8_t {
  kSilu,
  kGeluTanh,
  kClampedSwish,
  kSigmoid,
  kNone,
  kReluSquared,
  kGelu,
  kGatedGelu,
  kPlainGeluTanh,
  kXielu,
};

// Returns whether a feed-forward block with this activation has a gate projection.
constexpr bool has_gate(Activation activation) {
  return activation != Activation::kReluSquared && activation != Activation::kGelu &&
         activation != Activation::kPlainGeluTanh && activation != Activation::kXielu;
}

// Parameters of xIELU (Huang and Schlag 2024), of a single input: positive · x² + linear · x where
// x > 0, elsewhere negative · (e^min(x, limit) − 1 − x) + linear · x.
struct Xielu {
  float positive = 0, negative = 0, linear = 0, limit = 0;
};

// Pooling turns the hidden states of a text's tokens into one vector: their mean, the state of the
// first or the last token, or the scores that a classifier computes from the first token's state.
enum class Pooling : uint8_t { kMean, kCls, kLast, kRank };

}  // namespace kvik
