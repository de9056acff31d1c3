#pragma once

#include <cstdint>
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
// The output of the layers is another such x. As in Transformers. One thread.
class HyperConnections {
 public:
  struct Buffers {
    Rows streams, spare;  // [n_rows_max, n · model_dim]
    Rows mixed;           // the same, of the mix
    Rows low;             // [n_rows_max, rank]
    Rows weights, kept;   // [n_rows_max, n], of the half's output
    Rows twos;            // [1, n]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model`, which must have hyper-connections, and `backend` are borrowed.
  HyperConnections(const Model& model, Backend& backend, const Buffers& buffers);

  // Makes the streams from the input of the first layer.
  void begin_step(ResidualStream& x);
  // Begins a half of a layer: x reads a mix of the streams, and adds to zero.
  void begin(const HyperWeights& w, ResidualStream& x);
  // Adds what x has added to the streams.
  void end(const ResidualStream& x);
  // Makes x read the output of all layers.
  void finish(ResidualStream& x) { mix(model_.hyper_output(), x); }
  // Drops all rows but these, which become adjacent. Called between begin() and end().
  void keep(std::span<const uint32_t> rows);

  // [n_rows, n · model_dim]
  Rows streams(uint32_t n_rows) const { return buffers_.streams.slice(0, n_rows); }
  // out = the norm of each stream of rows like those of streams().
  void norm(Rows streams, const Buffer& weights, Rows out);

 private:
  // Returns the normed streams.
  Rows mix(const HyperWeights& w, ResidualStream& x);

  const Model& model_;
  Backend& backend_;
  const Buffers own_;
  Buffers buffers_;  // the same, with buffers and their spares swapped
  const uint32_t n_, dim_;
};

}  // namespace kvik
