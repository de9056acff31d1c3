#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// What every layer knows of a token beside its input (ModelConfig::per_layer_dim): a vector of its
// own, (norm(projection · x₀ / √model_dim) + √per_layer_dim · embedding) / √2, of what enters the
// first layer and of the token's row in a second table. Behind its feed-forward a layer adds norm(
// output · (activation(gate · x) · vector)) (Gemma 3n and 4, as transformers has them). One thread.
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

  // x has what enters the first layer.
  void begin_step(std::span<const TokenId> tokens, ResidualStream& x);
  // Only these rows are left, side by side.
  void keep(std::span<const uint32_t> rows);
  void add(uint32_t layer, ResidualStream& x);

 private:
  const Model& model_;
  Backend& backend_;
  const Buffers own_;
  Buffers buffers_;  // as the step has turned them
};

}  // namespace kvik
