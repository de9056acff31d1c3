#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "model/model.h"
#include "model/rope.h"
#include "model/row_buffers.h"

namespace kvik {

// The projections of multi-head latent attention (MLA, LatentConfig): from x to Q and the latent K,
// which replaces the usual projection to Q, K and V, and from the heads' output to their values.
// One thread.
class LatentProjection {
 public:
  struct Buffers {
    // [n_rows_max, (q_rank, or q of all heads) + rank + qk_rope_head_dim + gate_dim]
    Rows down;
    Rows queries;  // [n_rows_max, n_heads · q_dim], if q has a low rank
    Rows values;   // [n_rows_max, n_heads · value_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model` and `backend` are borrowed.
  LatentProjection(const Model& model, Backend& backend, const Buffers& buffers)
      : model_(model), backend_(backend), buffers_(buffers) {}

  struct Projected {
    Rows k;      // [n_rows, head_dim]; no columns if the layer shares that of another
    Rows gate;   // [n_rows, gate_dim], of the output
    Rows low_q;  // [n_rows, q_rank], the normed low-rank q
  };
  // Writes to q, [n_rows, n_heads · head_dim], the queries in the space of the latent K. in: the
  // layer's normed input. The result is valid until the next call.
  Projected project(uint32_t layer, Rows in, const RopeTables& ropes, Rows q);

  // Projects the heads' sums of latent vectors, [n_rows, n_heads · rank], to their values: [n_rows,
  // n_heads · value_dim].
  Rows values(uint32_t layer, Rows gathered);

 private:
  const Model& model_;
  Backend& backend_;
  Buffers buffers_;
};

}  // namespace kvik
