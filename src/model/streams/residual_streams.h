#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"
#include "model/per_layer_inputs.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// The residual streams of Gemma 3n (StreamsConfig), s₀ to sₙ₋₁ for each token. A layer first
// predicts all of them, then computes the first one as other models do, and corrects the others by
// the difference (AltUp, Baykal et al. 2023):
//
//   m(x)  = tanh(router · norm(x) / model_dim)
//   pⱼ    = sⱼ + Σᵢ predict[j · n + i] · sᵢ,      predict = predict matrix · m(s₀)
//   x     = layer(p₀)
//   sⱼ    = pⱼ + (1 + correct[j]) · (x − p₀),     correct = correct matrix · m(x)
//   sⱼ   += per-layer input of (scale · s₀), for j > 0 (PerLayerInputs)
//
// Beside attention, with a = the norm of p₀ that attention reads too, runs a low-rank map (LAuReL,
// Menghani et al. 2024): x = (p₀ + attention(a) + a + norm(up · down · a)) / √2.
//
// Before the first layer, sⱼ is a projection of the embedding s₀ with the magnitude of s₀. After
// the last layer, x is the mean of s₀ and of projections of the others with its magnitude. As in
// Transformers. One thread.
class ResidualStreams {
 public:
  struct Buffers {
    Rows streams, spare;       // [n_rows_max, n · model_dim]
    Rows laurel, laurel_down;  // [n_rows_max, model_dim], [n_rows_max, laurel_rank]
    Rows change;               // [n_rows_max, model_dim]
    Rows modes, coefficients;  // [n_rows_max, n], [n_rows_max, n²]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model`, which must have several streams, and `backend` are borrowed.
  ResidualStreams(const Model& model, Backend& backend, const Buffers& buffers);

  // Makes the streams from the input of the first layer, x.
  void begin_step(const ResidualStream& x);
  // Predicts the streams and sets x to the first one, which the layer computes.
  void predict(uint32_t layer, ResidualStream& x);
  // Adds the low-rank map of predict() to x after attention.
  void join(ResidualStream& x);
  // Corrects the streams by x, the output of the layer, and adds the per-layer inputs.
  void correct(uint32_t layer, const ResidualStream& x, PerLayerInputs& inputs);
  // Sets x to the output of all layers.
  void finish(ResidualStream& x);
  // Drops all rows but these, which become adjacent. Called between predict() and join().
  void keep(std::span<const uint32_t> rows);

 private:
  // Returns the first n_rows of stream j, [n_rows, model_dim].
  Rows stream(uint32_t j, uint32_t n_rows) const {
    return buffers_.streams.slice(0, n_rows).columns(j * dim_, dim_);
  }
  void copy(Rows from, Rows to) {
    backend_.copy_heads({from, 1, 0, 0, from.n_cols}, {to, 1, 0, 0, to.n_cols});
  }
  Rows modes_of(const StreamWeights& w, Rows x);
  void add_inputs(uint32_t layer, uint32_t n_rows, PerLayerInputs& inputs);

  const Model& model_;
  Backend& backend_;
  const Buffers own_;
  Buffers buffers_;  // the same, with streams and their spare swapped
  const uint32_t n_, dim_;
  std::vector<uint32_t> all_rows_;  // 0, 1, …
  Buffer ones_;                     // [n]
};

}  // namespace kvik
