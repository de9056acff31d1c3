#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// Per-layer inputs of Gemma 3n and Gemma 4 (ModelConfig::per_layer_dim): each layer has a vector
// for each token, (norm(projection · x₀ / √model_dim) + √per_layer_dim · embedding) / √2, where x₀
// is the input of the first layer and `embedding` is the token's row in a second embedding table.
// After its feed-forward a layer adds norm(output · (activation(gate · x) · vector)) to x, or in
// Gemma 3n to other streams (ResidualStreams), as in Transformers. One thread.
class PerLayerInputs {
 public:
  struct Buffers {
    Rows vectors, spare;  // [n_rows_max, n_layers · per_layer_dim]
    Rows gated;           // [n_rows_max, per_layer_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  PerLayerInputs(const Model& model, Backend& backend, const Buffers& buffers)
      : model_(model), backend_(backend), own_(buffers), buffers_(buffers) {}

  // Computes the vectors of all layers. `x` is the input of the first layer.
  void begin_step(std::span<const TokenId> tokens, ResidualStream& x);
  // Drops all rows but these, which become adjacent.
  void keep(std::span<const uint32_t> rows);
  void add(uint32_t layer, ResidualStream& x);
  // Returns activation(gate · x) · vector, [n_rows, per_layer_dim], valid until the next call.
  Rows gated(uint32_t layer, Rows x);

 private:
  const Model& model_;
  Backend& backend_;
  const Buffers own_;
  Buffers buffers_;  // the same, with `vectors` and `spare` swapped by keep()
  std::vector<TokenId> tokens_;
};

}  // namespace kvik
