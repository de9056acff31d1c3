#pragma once

#include <memory>
#include <vector>

#include "backend/ops.h"
#include "catalogue/model_config.h"

namespace kvik {

// The weights of a recurrent layer. What its kind does not have is empty.
struct RecurrentWeights {
  Buffer norm;                           // [model_dim]
  std::unique_ptr<PackedMatrix> in;      // [DeltaConfig::in_dim(), model_dim]
  Buffer taps;                           // [n_taps, channels]
  std::vector<float> step_biases;        // [n_heads], on the host, and so
  std::vector<float> factors;            // [n_heads] of the decay's exponent
  Buffer state_norm;                     // [value_dim]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, values_dim]
  Buffer post_norm;                      // [model_dim]
};

class TensorLoader;

// All but the norm behind it. Errors: those of TensorLoader; kCorrupt for a factor that lets a
// state grow.
Result<RecurrentWeights> load_recurrent(TensorLoader& tensors, const DeltaConfig& config,
                                        uint32_t layer);

}  // namespace kvik
