#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// Hyper-connections (HyperConnectionsConfig): n residual streams s₀ to sₙ₋₁, which begin as the
// embedding. Each half f of a layer reads a mix of them and adds to each of them:
//
//   h  = norm(s), each stream by itself with weights of its own
//   x  = mean over j of sigmoid(up · silu(down · h / n))ⱼ · hⱼ
//   sⱼ = sⱼ + 2 · sigmoid(inject · h / n)[j] · f(x)
//
// The output of the layers is another such x. As in Transformers.
//
// Manifold-constrained ones (SinkhornConfig) have for each half weights pre, post and mix, which
// follow from projection · norm(s) (StreamWeightShape), where all streams share one norm without
// weights:
//
//   x  = Σj pre[j] · sⱼ
//   sⱼ = Σi mix[i][j] · sᵢ + post[j] · f(x)
//
// The output of the layers is another such x, or the mean of the streams. One thread.
class HyperConnections {
 public:
  struct Buffers {
    Rows streams, spare;  // [n_rows_max, n · model_dim]
    Rows mixed;           // the same, of the mix; empty if manifold-constrained
    Rows low;             // [n_rows_max, rank]
    // [n_rows_max, n], of the half's output; if manifold-constrained, [n_rows_max, (2 + n) · n]
    Rows weights, kept;
    Rows twos;  // [1, n]
    Rows ones;  // [1, n · model_dim], if manifold-constrained
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model`, which must have hyper-connections, and `backend` are borrowed.
  HyperConnections(const Model& model, Backend& backend, const Buffers& buffers);

  // Makes the streams from the input of the first layer.
  void begin_step(ResidualStream& x);
  // Returns streams that the caller computes instead: n rows of model_dim for each of n_rows.
  Rows begin_step(uint32_t n_rows);
  // Begins a half of a layer: x reads a mix of the streams, and adds to zero.
  void begin(const HyperWeights& w, ResidualStream& x);
  // Adds what x has added to the streams.
  void end(const ResidualStream& x);
  // Makes x read the output of all layers, by the model's weights or by others.
  void finish(ResidualStream& x) { finish(model_.hyper_output(), x); }
  void finish(const HyperWeights& w, ResidualStream& x);
  // Drops all rows but these, which become adjacent. Called between begin() and end().
  void keep(std::span<const uint32_t> rows);

  // [n_rows, n · model_dim]
  Rows streams(uint32_t n_rows) const { return buffers_.streams.slice(0, n_rows); }
  // out = the norm of each stream of rows like those of streams().
  void norm(Rows streams, const Buffer& weights, Rows out);

 private:
  // Returns the normed streams.
  Rows mix(const HyperWeights& w, ResidualStream& x);
  // Computes pre, post and mix, or pre alone, and x = Σj pre[j] · sⱼ.
  void collapse(const HyperWeights& w, uint32_t n_iterations, ResidualStream& x);
  Rows stream(Rows of, uint32_t j) const { return of.columns(j * dim_, dim_); }

  const Model& model_;
  Backend& backend_;
  const Buffers own_;
  Buffers buffers_;  // the same, with buffers and their spares swapped
  const std::optional<SinkhornConfig> sinkhorn_;
  const uint32_t n_, dim_;
};

}  // namespace kvik
