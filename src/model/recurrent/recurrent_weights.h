#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"

namespace kvik {

// The weights of a recurrent layer. What its kind does not have is empty.
struct RecurrentWeights {
  Buffer norm;                           // [model_dim]
  std::unique_ptr<PackedMatrix> in;      // [in_dim of the config, model_dim]
  Buffer taps;                           // [n_taps, channels]
  Buffer taps_bias;                      // [channels]
  std::vector<float> step_biases;        // [n_heads], on the host, and so
  std::vector<float> factors;            // [n_heads] of the decay's exponent,
  std::vector<float> skips;              // [n_heads]
  Buffer state_norm;                     // [value_dim], or [inner_dim]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, what the heads give]
  Buffer post_norm;                      // [model_dim]
};

class TensorLoader;

// All but the norm behind it, of a layer that does not attend. Errors: those of TensorLoader;
// kCorrupt for a factor that lets a state grow.
Result<RecurrentWeights> load_recurrent(TensorLoader& tensors, const LayerConfig& config,
                                        uint32_t layer);

}  // namespace kvik
