#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
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
    Rows scores;  // [n_rows_max, columns of the router]
    // [n_rows_max, GatedProduct::n_parts · shared_ffn_dim], or of the MLP beside the experts
    Rows shared_gate_up;
    Rows beside;   // [n_rows_max, model_dim] what that MLP gives
    Rows gate_up;  // [n_rows_max · n_used, GatedProduct::n_parts · ffn_dim]
    Rows out;      // [n_rows_max · n_used, model_dim]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `backend` and `config`, which is of a model with experts, are borrowed.
  ExpertsBlock(Backend& backend, const ModelConfig& config, const Buffers& buffers);

  void forward(const FeedForwardWeights& w, ResidualStream& x);

 private:
  // x += norm(norm(mlp(norm(x))) + norm(experts(norm(x)))), each norm with weights of its own, and
  // experts chosen by router(norm(x)) / √model_dim (Gemma 4, as transformers has it).
  void forward_beside(const FeedForwardWeights& w, ResidualStream& x);
  // By the backend, where it can, else on the host.
  void route(const FeedForwardWeights& w, Rows in);
  GroupedRows grouped() const { return of_router(Routed::kChosen); }
  GroupedRows grouped_in_order() const { return of_router(Routed::kInOrder); }
  GroupedRows of_router(Routed routed) const;
  // What each row takes of its chosen experts', or of the shared expert's output.
  WeightedRows taken() const;
  WeightedRows shared() const;
  // Of each row's chosen experts, [n_rows · n_used, model_dim], as taken() counts them.
  Rows through_chosen(const FeedForwardWeights& w, Rows in);

  Backend& backend_;
  const ModelConfig& model_;
  const ExpertsConfig& config_;
  Buffers buffers_;
  GatedProduct shared_, chosen_;
  ExpertRouter router_;
  uint32_t n_routed_ = 0;           // choices that the backend made; 0: the router did
  std::vector<float> host_scores_;  // the same as scores on the host
};

}  // namespace kvik
