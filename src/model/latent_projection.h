#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// What latent attention has in the place of a plain projection to Q, K and V, and before the output
// (LatentConfig). One thread.
class LatentProjection {
 public:
  struct Buffers {
    Rows down;     // [n_rows_max, (q_rank, or all heads' q) + rank + turning_dim]
    Rows queries;  // [n_rows_max, n_heads · q_dim], where there is a q_rank
    Rows values;   // [n_rows_max, n_heads · value_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  LatentProjection(const Model& model, Backend& backend, const Buffers& buffers)
      : model_(model), backend_(backend), buffers_(buffers) {}

  // q: [n_rows, n_heads · head_dim], what meets K of the pages. → K: [n_rows, head_dim], valid
  // until the next projection.
  Rows project(uint32_t layer, ResidualStream& x, const RopeTables& ropes, Rows q);

  // What the heads have gathered of the latent vectors, [n_rows, n_heads · rank], to their values.
  Rows values(uint32_t layer, Rows gathered);

 private:
  const Model& model_;
  Backend& backend_;
  Buffers buffers_;
};

}  // namespace kvik
