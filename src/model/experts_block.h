#pragma once

#include <cstdint>
#include <vector>

#include "backend/ops.h"
#include "model/expert_router.h"
#include "model/mlp_block.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// A mixture of experts as the feed-forward of a layer: each row goes through those that its router
// chooses (Shazeer et al. 2017), and through the one that all share where there is one. One thread.
class ExpertsBlock {
 public:
  struct Buffers {
    Rows scores;          // [n_rows_max, columns of the router]
    Rows shared_gate_up;  // [n_rows_max, 2 · shared_ffn_dim]
    Rows gate_up;         // [n_rows_max · n_used, 2 · ffn_dim]
    Rows out;             // [n_rows_max · n_used, model_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `backend` and `config`, which is of a model with experts, are borrowed.
  ExpertsBlock(Backend& backend, const ModelConfig& config, const Buffers& buffers);

  void forward(const FeedForwardWeights& w, ResidualStream& x);

 private:
  Backend& backend_;
  const ExpertsConfig& config_;
  Buffers buffers_;
  GatedProduct shared_, chosen_;
  ExpertRouter router_;
  std::vector<float> host_scores_;  // the same as scores on the host
};

}  // namespace kvik
