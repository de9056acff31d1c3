#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace kvik {

// A draft head that was trained for a model and is stored apart from it (EAGLE-3, Li et al. 2025):
// a layer whose input is a token's embedding together with a projection of hidden states of some
// layers of the model at the token before.
struct EagleConfig {
  // The hidden states are the inputs of these layers; n_layers: the output of the last one.
  std::vector<uint32_t> taps;
  bool is_residual_normed = false;  // the projection is normed before the layer adds to it
  // Token of each row of the head's output projection; null: the model's vocabulary in order.
  std::shared_ptr<const std::vector<uint32_t>> tokens;
};

// A drafter of several narrow layers that have no K and V, but read those of the model's last
// layers with full attention and with a window (Gemma 4's assistant, 2026). All tokens of a draft
// are computed at the position of the first one.
struct AssistantConfig {
  uint32_t n_layers = 0;
  uint32_t model_dim = 0;  // width of its layers
};

// Norm of the residual streams that an MTP head reads: each one by itself, with weights of its own
// or with the same as the others, or all of them together.
enum class StreamNorm : uint8_t { kOwn, kShared, kTogether };

}  // namespace kvik
