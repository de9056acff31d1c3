#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "catalogue/model_config.h"

namespace kvik {

// The weights of a recurrent layer. Tensors that its kind does not have are empty.
struct RecurrentWeights {
  Buffer norm;                       // [model_dim]; empty if it is attention's
  std::unique_ptr<PackedMatrix> in;  // [in_dim of the config, model_dim]
  Buffer conv_weights;               // [n_taps, channels]
  Buffer conv_bias;                  // [channels]
  std::vector<float> step_biases;    // [n_heads], on the host
  // [n_heads], on the host: factors of the decay's exponent or, if it has a bound, of its input
  std::vector<float> factors;
  std::vector<float> skips;  // [n_heads], on the host
  // KDA: projections of the low ranks, if there are any, to the inputs of the decays and to the
  // output gate.
  std::unique_ptr<PackedMatrix> decay_up, gate_up;  // [inner_dim, head_dim]
  // Mamba 1: projections to dt, B and C and of dt to the steps, the norms of the former, and the
  // weights of ScanWeights.
  std::unique_ptr<PackedMatrix> select;  // [selected_dim, inner_dim]
  std::unique_ptr<PackedMatrix> steps;   // [inner_dim, step_rank]
  Buffer step_norm, in_norm, out_norm;   // [step_rank], [state_dim], [state_dim]
  Buffer scan_factors;                   // [state_dim, inner_dim]
  Buffer scan_biases, scan_skips;        // [inner_dim]
  Buffer state_norm;                     // [value_dim], or [inner_dim]
  std::unique_ptr<PackedMatrix> output;  // [model_dim, output dimensions of the heads]
  Buffer post_norm;                      // [model_dim]
};

class TensorLoader;

// Loads all weights but post_norm of a recurrent layer. Errors: those of TensorLoader; kCorrupt for
// a decay factor that is not ≤ 0, because the state would grow, or that is below 0 where a bound
// keeps it from growing.
Result<RecurrentWeights> load_recurrent(TensorLoader& tensors, const LayerConfig& config,
                                        uint32_t layer);

}  // namespace kvik
