#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "kv/kv_view.h"
#include "model/attention_block.h"
#include "model/model.h"
#include "model/recurrent/state_layout.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"
#include "model/streams/hyper_connections.h"

namespace kvik {

// The multi-token prediction (MTP) head: a layer that predicts the token after the next one
// (ModelConfig::has_mtp_head). Its input for a token is projection([norm(embedding of the token),
// norm(hidden state of the token before)]); its normed output goes to the model's output projection
// (Gloeckle et al. 2024; DeepSeek-V3, 2024, section 2.2; Qwen3-Next).
//
// If it has hyper-connections, the hidden states of a token are the residual streams s after the
// last layer. The layer's streams begin as projection([norm(embedding), norm(s)ⱼ]), and its output
// is the mix of its own streams by weights of its own (Qwen4-Exp 2026; DeepSeek-V4, 2026).
//
// An EAGLE-3 head (EagleConfig) is one, too: its hidden state of a token is a projection of those
// of some layers, to which the layer adds, and Q, K and V are projections of both norms,
// concatenated.
//
// An assistant (AssistantConfig) has no K and V. Its hidden state of a draft token is a projection
// of its own output.
//
// K and V of a token therefore depend on no later token and are stored in the same pages as those
// of the other layers. The hidden state of the newest token is a part of the sequence's recurrent
// state; in models without recurrent layers it lies in the page of that token (MtpHiddenPlace), so
// that each full page has that of its last token. It is zero where a prefix was resumed inside a
// page whose newest token is a later one. The first token has no token before it, so no position
// attends to its K and V. One thread.
class MtpHeadBlock {
 public:
  struct Buffers {
    // [n_rows_max, hidden_dim], hidden states of the step's rows after the final norm, or streams
    Rows hidden;
    Rows before;   // [n_rows_max, hidden_dim], hidden state of the token before each row
    Rows pairs;    // [n_rows_max · n_streams, 2 · model_dim]
    Rows outputs;  // [kMaxRows, hidden_dim], normed outputs of the last pass, raw ones or streams
    Rows normed;   // [kMaxRows, draft_dim], normed outputs if `outputs` has others
    Rows taps;     // [n_rows_max, n_taps · model_dim], hidden states for an EAGLE-3 head
    ResidualStream::Buffers stream;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };
  static constexpr uint32_t kMaxRows = 32;  // maximum number of rows of one pass

  // `model`, which must have an MTP head, and `backend` are borrowed. `hyper` is too, if the MTP
  // layer has hyper-connections (ModelConfig::mtp_streams); follow() and begin() replace its
  // streams.
  MtpHeadBlock(const Model& model, Backend& backend, KvType kv_type, const Buffers& buffers,
               HyperConnections* hyper);

  uint32_t layer() const { return model_.config().n_layers; }

  // Call with the rows before each layer of a step, and after the last one. An EAGLE-3 head reads
  // those before some of the layers.
  void tap(uint32_t layer, Rows x);

  // Rows of one of the step's sequences.
  struct Run {
    KvView kv;
    uint32_t first_position = 0;
    uint32_t first_row = 0, n_rows = 0;
    uint32_t n_draft_tokens = 0;  // number of draft tokens, which are the last rows
  };
  // Writes K and V of all rows of the step to the pages, and keeps the hidden states of the last
  // row of each sequence that is not a draft token. x: the rows after the last layer, of which
  // hyper-connections still have the streams. `runs` is borrowed until accept().
  void follow(std::span<const TokenId> tokens, std::span<const Run> runs, Rows x,
              AttentionBlock& attention);
  // For an assistant, which has no K and V: keeps the hidden states. x: the rows of `runs`.
  void follow(std::span<const Run> runs, Rows x);
  // Keeps the hidden states for the first n_accepted_drafts[i] draft tokens of run i of the step,
  // which were accepted.
  void accept(std::span<const uint32_t> n_accepted_drafts);

  // A token of one sequence, after which the next one is predicted.
  struct Row {
    TokenId token = 0;
    uint32_t position = 0;  // not 0
    KvView kv;              // used if the token follows the sequence's newest token
    // Row of the last pass that predicted the token; std::nullopt: the token follows the newest
    // one.
    std::optional<uint32_t> previous_row = {};
  };
  // Computes the layer's input for at most kMaxRows rows.
  ResidualStream& begin(std::span<const Row> rows);
  // Writes K and V of these rows.
  void write_kv(AttentionBlock& attention);
  // Returns the normed output of the layer, which is the input of the output projection, valid
  // until the next pass.
  Rows end();

 private:
  float* hidden_at(const KvView& kv, uint32_t position) const;
  void keep_hidden(const Run& run, uint32_t first_row, uint32_t n_rows);
  void copy_row(const float* from, float* to);
  void copy_rows(Rows from, Rows to);
  void join(std::span<const TokenId> tokens);
  void join_streams(Rows embedded, Rows before);

  const Model& model_;
  Backend& backend_;
  HyperConnections* hyper_;
  const ModelConfig draft_config_;             // config of the layers, which may be narrower
  const uint64_t state_offset_;                // in a recurrent state
  const std::optional<MtpHiddenPlace> place_;  // in a page
  Buffers buffers_;
  ResidualStream x_;
  std::span<const Run> runs_;
  std::vector<uint32_t> rows_;  // rows that a gather reads
  std::vector<TokenId> tokens_;
};

}  // namespace kvik
