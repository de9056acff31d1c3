#pragma once

#include <cmath>
#include <cstdint>

#include "backend/backend.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// Computes activation(gate(x)) · up(x), or activation(up(x)) if the activation has no gate, in a
// buffer of its own. One thread.
class GatedProduct {
 public:
  // Number of projections before the activation: gate and up, or up alone.
  static uint32_t n_parts(Activation activation) { return has_gate(activation) ? 2 : 1; }

  // gate_up is the buffer: [n_rows_max, n_parts · ffn_dim]. `backend` is borrowed.
  GatedProduct(Backend& backend, Activation activation, Rows gate_up)
      : backend_(backend), activation_(activation), gate_up_(gate_up) {}

  // gate_up: [n_parts · ffn_dim, model_dim]; bias: [n_parts · ffn_dim], or empty. Returns [n_rows,
  // ffn_dim], valid until the next product.
  Rows product(Rows x, const PackedMatrix& gate_up, const ActivationParameters& parameters,
               const Buffer& bias = {}) {
    return activated(x.n_rows, gate_up.n_rows() / n_parts(activation_), parameters, [&](Rows out) {
      backend_.matmul(x, gate_up, out);
      if (bias.size() > 0) backend_.add_bias(out, bias.floats());
    });
  }
  // Like product(), for a stack of matrices of the same size, each applied to its own rows: returns
  // [groups.n_rows(), ffn_dim]. biases: [n_matrices, n_parts · ffn_dim], or empty.
  Rows grouped_product(Rows x, const PackedMatrix& gate_up, const ActivationParameters& parameters,
                       const Buffer& biases, const GroupedRows& groups) {
    const uint32_t ffn_dim = gate_up.n_rows() / groups.n_matrices / n_parts(activation_);
    return activated(groups.n_rows(), ffn_dim, parameters, [&](Rows out) {
      backend_.grouped_matmul(x, gate_up, groups, out);
      if (biases.size() > 0) {
        backend_.add_grouped_bias(out, biases.floats(), groups);
      }
    });
  }

 private:
  Rows activated(uint32_t n_rows, uint32_t ffn_dim, const ActivationParameters& parameters,
                 const auto& multiply) {
    const uint32_t n_cols = n_parts(activation_) * ffn_dim;
    const Rows gate_up = gate_up_.slice(0, n_rows).columns(0, n_cols);
    const Rows gate = gate_up.columns(0, ffn_dim);
    multiply(gate_up);
    if (parameters.gate_scale != 1.0f) backend_.scale(gate, parameters.gate_scale);
    if (std::isfinite(parameters.cutoff)) backend_.cut_off(gate, parameters.cutoff);
    const Rows up = gate_up.columns(n_cols - ffn_dim, ffn_dim);
    if (activation_ == Activation::kXielu) {
      backend_.xielu(gate, parameters.xielu);
    } else if (parameters.limit > 0) {
      // SiLU of a limited gate is below the limit.
      if (parameters.limits_gate) backend_.limit(gate, parameters.limit);
      backend_.limited_silu(gate, up, parameters.limit, gate);
    } else {
      backend_.gated_activation(activation_, gate, up, gate);
    }
    if (parameters.scale != 1.0f) backend_.scale(gate, parameters.scale);
    return gate;
  }

  Backend& backend_;
  Activation activation_;
  Rows gate_up_;
};

// An MLP as the feed-forward of a layer: x += down(activation(gate(norm(x))) · up(norm(x)))
// (Shazeer 2020). One thread.
class MlpBlock {
 public:
  // Takes a buffer for the widest MLP of the model's layers.
  static Rows take_buffer(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);

  MlpBlock(Backend& backend, Activation activation, Rows buffer)
      : gated_(backend, activation, buffer) {}

  void forward(const FeedForwardWeights& w, const Buffer& norm, ResidualStream& x) {
    x.add_projection(gated_.product(x.normed(norm), *w.gate_up, w.activation, w.gate_up_bias),
                     {.weights = *w.down, .bias = w.down_bias, .post_norm = w.post_norm});
  }

 private:
  GatedProduct gated_;
};

}  // namespace kvik
