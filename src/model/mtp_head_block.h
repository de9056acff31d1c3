#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "model/attention_block.h"
#include "model/model.h"
#include "model/recurrent/recurrent_block.h"
#include "model/recurrent/state_layout.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// The multi-token prediction (MTP) head: a layer that predicts the token after the next one
// (ModelConfig::has_mtp_head). Its input for a token is projection([norm(embedding of the token),
// norm(hidden state of the token before)]); its normed output goes to the model's output projection
// (Gloeckle et al. 2024; DeepSeek-V3, 2024, section 2.2; Qwen3-Next).
//
// K and V of a token therefore depend on no later token and are stored in the same pages as those
// of the other layers. The hidden state of the newest token is a part of the sequence's recurrent
// state. The first token has no token before it, so no position attends to its K and V. One thread.
class MtpHeadBlock {
 public:
  struct Buffers {
    Rows hidden;   // [n_rows_max, model_dim], hidden states of the step's rows after the final norm
    Rows before;   // [n_rows_max, model_dim], hidden state of the token before each row
    Rows pairs;    // [n_rows_max, 2 · model_dim]
    Rows outputs;  // [kMaxRows, model_dim], normed outputs of the last pass
    ResidualStream::Buffers stream;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };
  static constexpr uint32_t kMaxRows = 32;  // maximum number of rows of one pass

  // `model`, which must have an MTP head, and `backend` are borrowed.
  MtpHeadBlock(const Model& model, Backend& backend, const Buffers& buffers);

  uint32_t layer() const { return model_.config().n_layers; }

  // Writes K and V of all rows of the step to the pages, and to each sequence's state the hidden
  // state of its last row that is not a draft token. x: the rows after the last layer. `runs` is
  // borrowed until accept().
  void follow(std::span<const TokenId> tokens, std::span<const RecurrentBlock::Run> runs, Rows x,
              AttentionBlock& attention);
  // Updates the states for the first n_accepted_drafts[i] draft tokens of run i of the step, which
  // were accepted.
  void accept(std::span<const uint32_t> n_accepted_drafts);

  // A token of one sequence, after which the next one is predicted.
  struct Row {
    TokenId token = 0;
    // State of the sequence, used if the token follows the sequence's newest token.
    std::byte* state = nullptr;
    // Row of the last pass that predicted the token; std::nullopt: the token follows the newest
    // one.
    std::optional<uint32_t> previous_row = {};
  };
  // Computes the layer's input for at most kMaxRows rows.
  ResidualStream& begin(std::span<const Row> rows);
  // Returns the normed output of the layer, which is the input of the model's output projection.
  Rows end();

 private:
  float* hidden_of(std::byte* state) const {
    return reinterpret_cast<float*>(state) + state_offset_;
  }
  void copy_row(const float* from, float* to);
  void join(std::span<const TokenId> tokens);

  const Model& model_;
  Backend& backend_;
  const uint64_t state_offset_;
  Buffers buffers_;
  ResidualStream x_;
  std::span<const RecurrentBlock::Run> runs_;
  std::vector<uint32_t> rows_;  // rows that a gather reads
  std::vector<TokenId> tokens_;
};

}  // namespace kvik
