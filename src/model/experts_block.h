#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/expert_router.h"
#include "model/mlp_block.h"
#include "model/model.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// A mixture of experts as the feed-forward of a layer: each row passes through the top-k experts
// that the router chooses (Shazeer et al. 2017), and through the shared expert if there is one. One
// thread.
class ExpertsBlock {
 public:
  struct Buffers {
    Rows scores;  // [n_rows_max, columns of the router]
    // [n_rows_max, GatedProduct::n_parts · ffn_dim of the shared expert, or of the MLP that runs in
    // parallel with the experts]
    Rows shared_gate_up;
    Rows beside;   // [n_rows_max, model_dim], output of that MLP
    Rows gate_up;  // [n_rows_max · n_used, GatedProduct::n_parts · ffn_dim]
    Rows out;      // [n_rows_max · n_used, model_dim], or [… latent_dim] if that is more
    Rows latent;   // [n_rows_max, latent_dim], the experts' input, then the sum of their outputs
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `backend` and `config`, which must have experts, are borrowed.
  ExpertsBlock(Backend& backend, const ModelConfig& config, const Buffers& buffers);

  // Sets the tokens of the rows that follow, which are borrowed. Only needed with tables of tokens.
  void set_tokens(std::span<const TokenId> tokens) { tokens_ = tokens; }
  // Drops all rows but these.
  void keep(std::span<const uint32_t> rows);
  // x += experts(norm(x)). `config` is that of the layer, which must outlive the call.
  void forward(const ExpertsConfig& config, const FeedForwardWeights& w, const Buffer& norm,
               ResidualStream& x);

 private:
  // x += norm(norm(mlp(norm(x))) + norm(experts(norm(x)))), where each norm has its own weights and
  // the router's scores are router(norm(x)) / √model_dim (Gemma 4, as in Transformers).
  void forward_parallel(const FeedForwardWeights& w, ResidualStream& x);
  // Chooses experts, on the backend if it supports that, otherwise on the host.
  void route(const FeedForwardWeights& w, Rows in);
  GroupedRows grouped() const { return of_router(Routed::kChosen); }
  GroupedRows grouped_in_order() const { return of_router(Routed::kInOrder); }
  GroupedRows of_router(Routed routed) const;
  // Rows and weights of the chosen experts' output, and of the shared expert's, that are added to
  // each row.
  WeightedRows taken() const;
  WeightedRows shared() const;
  // Returns the output of each row's chosen experts: [n_rows · n_used, in.n_cols], in the order
  // that taken() expects.
  Rows chosen_output(const FeedForwardWeights& w, Rows in);

  Backend& backend_;
  const ModelConfig& model_;
  const ExpertsConfig widest_;
  const ExpertsConfig* config_ = nullptr;  // of the current layer
  Buffers buffers_;
  GatedProduct shared_, chosen_;
  ExpertRouter router_;
  uint32_t n_routed_ = 0;           // number of choices made by the backend; 0: router_ made them
  std::vector<float> host_scores_;  // copy of `scores` on the host
  std::span<const TokenId> tokens_;
  std::vector<TokenId> kept_tokens_;
};

}  // namespace kvik
