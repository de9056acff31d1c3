#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/ops.h"
#include "base/token_id.h"
#include "kv/kv_view.h"
#include "model/expert_router.h"
#include "model/layer_groups.h"
#include "model/model.h"
#include "model/rope.h"

namespace kvik {

// What is wanted of a sequence's new tokens: of the last n_last of them, or of all if there are
// fewer, the logits, or the hidden states in their place.
struct WantLogits {
  uint32_t n_last = 0;
  bool is_hidden = false;

  static const WantLogits kNone, kLast, kAll;
};
inline constexpr WantLogits WantLogits::kNone{.n_last = 0};
inline constexpr WantLogits WantLogits::kLast{.n_last = 1};
inline constexpr WantLogits WantLogits::kAll{.n_last = UINT32_MAX};

// The new tokens of one sequence in a step. Its pages hold K and V of all earlier positions and
// have room for the new ones.
struct BatchSequence {
  std::span<const TokenId> tokens;
  uint32_t first_position = 0;
  KvView kv;
  WantLogits want = WantLogits::kLast;
};

// The forward pass: one for all families, driven by the config's features, over a backend's
// operations. Reads and writes K and V in the batch's pages. One thread.
class Decoder {
 public:
  // `model` and `backend` are borrowed. Buffers for n_rows_max tokens a step are allocated here.
  Decoder(const Model& model, Backend& backend, KvType kv_type, uint32_t n_rows_max);

  // Runs all new tokens of all sequences, n_rows_max at most, as one batch. The logits and hidden
  // states that they want can be had until the next step.
  void forward(std::span<const BatchSequence> batch);

  // Rows that the last step's sequences want, in the order of the batch.
  size_t n_logits() const { return wanted_.size(); }
  // Logits of one of them in host memory, [n_vocab], valid until another row is asked for. A few
  // rows are computed together: asking in ascending order computes each once.
  std::span<const float> logits(size_t row);
  // The hidden state of one of them behind the last norm, [model_dim], valid until another is asked
  // for.
  std::span<const float> hidden(size_t row);

  size_t page_bytes() const { return backend_.page_bytes(kv_geometry_); }
  // How the layers share out the pages; KvView::groups has a table for each of these groups.
  const LayerGroups& groups() const { return groups_; }
  uint32_t n_rows_max() const { return n_rows_max_; }
  // Bytes of all buffers of such a decoder.
  static uint64_t buffer_bytes(const ModelConfig& config, uint32_t n_rows_max);

 private:
  Rows allocate(Buffer& buffer, uint32_t n_rows, uint32_t n_cols);
  void lay_out(std::span<const BatchSequence> batch);
  void write_kv(uint32_t layer, Rows x);
  Rows keep_wanted(Rows x);
  void attend(uint32_t layer, Rows x);
  void mlp(const LayerWeights& weights, Rows x);
  void experts(const LayerWeights& weights, Rows in, Rows x);
  Rows normed_input(const Buffer& norm, Rows x);
  void add_projection(Rows y, const PackedMatrix& w, const Buffer& post_norm, Rows x);
  void project(uint32_t first_row);

  const Model& model_;
  Backend& backend_;
  KvGeometry kv_geometry_;  // of the pages of every layer group
  LayerGroups groups_;
  uint32_t n_rows_max_;
  RopeTables ropes_;

  Buffer x_buffer_, normed_buffer_, qkv_buffer_, wanted_q_buffer_, heads_buffer_, gate_up_buffer_;
  Buffer scores_buffer_, expert_gate_up_buffer_, expert_out_buffer_, logits_buffer_;
  Rows x_;                          // [n_rows_max, model_dim] the residual stream
  Rows normed_;                     // [n_rows_max, model_dim]
  Rows qkv_;                        // [n_rows_max, q_dim + 2 · kv_dim]
  Rows wanted_q_;                   // [n_rows_max, q_dim] q of the rows that get logits
  Rows heads_;                      // [n_rows_max, q_dim] what attention gives
  Rows gate_up_;                    // [n_rows_max, 2 · mlp_dim]
  Rows scores_;                     // [n_rows_max, columns of the router]
  Rows expert_gate_up_;             // [n_rows_max · n_used, 2 · ffn_dim of an expert]
  Rows expert_out_;                 // [n_rows_max · n_used, model_dim]
  Rows logits_;                     // [logit_rows(), n_vocab]
  std::vector<float> host_logits_;  // the same on the host
  std::vector<float> host_hidden_;  // [model_dim]

  ExpertRouter router_;
  std::vector<float> host_scores_;  // [n_rows_max, columns of the router]

  // Of the current batch. A row is wanted where its logits or its hidden state are.
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;
  using Runs = std::vector<std::vector<KvRun>>;  // by layer group
  Runs runs_;
  std::vector<uint32_t> wanted_;          // rows, ascending
  std::optional<uint32_t> first_logits_;  // of them, the first whose logits are wanted
  Runs wanted_runs_;                      // the same rows as runs, once they lie side by side

  Rows last_;                                // of the wanted rows, behind the last layer
  std::optional<uint32_t> first_projected_;  // of the rows whose logits are at hand

  // What attention reads: all rows, but in the last layer the wanted ones alone.
  Rows q_;
  const Runs* attending_ = nullptr;
};

}  // namespace kvik
