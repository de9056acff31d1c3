#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/token_id.h"
#include "kv/kv_view.h"
#include "model/adapted_backend.h"
#include "model/adapters/token_switch.h"
#include "model/attention_block.h"
#include "model/experts_block.h"
#include "model/layer_groups.h"
#include "model/mlp_block.h"
#include "model/model.h"
#include "model/mtp_head_block.h"
#include "model/ngrams/ngram_block.h"
#include "model/open_pages.h"
#include "model/per_layer_inputs.h"
#include "model/recurrent/recurrent_block.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"
#include "model/streams/hyper_connections.h"
#include "model/streams/residual_streams.h"

namespace kvik {

// Selects the outputs of a sequence's new tokens: the logits of the last n_last of them (of all
// tokens if there are fewer), or with is_hidden their hidden states instead. needs_argmax_only
// announces that the caller only needs the token with the largest logit: the logits are then not
// copied to host memory unless logits() is called after all.
struct OutputRows {
  uint32_t n_last = 0;
  bool is_hidden = false;
  bool needs_argmax_only = false;

  static const OutputRows kNone, kLast, kAll;
};
inline constexpr OutputRows OutputRows::kNone{.n_last = 0};
inline constexpr OutputRows OutputRows::kLast{.n_last = 1};
inline constexpr OutputRows OutputRows::kAll{.n_last = UINT32_MAX};

// New tokens of one sequence in a step. The sequence's pages hold K and V of all earlier positions
// and have room for the new ones.
struct BatchSequence {
  std::span<const TokenId> tokens;
  uint32_t first_position = 0;
  KvView kv;
  OutputRows want = OutputRows::kLast;
  const Adapter* adapter = nullptr;  // null: the base model
  // number of draft tokens, which are the last of `tokens` and may be rejected
  uint32_t n_draft_tokens = 0;
  // Tokens before `tokens`: all of them if the model has adapters of its own, or as many of the
  // last ones as NgramBlock needs. Other models do not read them.
  std::span<const TokenId> earlier = {};
};

// A token for which the MTP head predicts the next token (MtpHeadBlock).
struct MtpHeadRow {
  TokenId token = 0;
  uint32_t position = 0;   // not 0
  uint32_t n_drafted = 0;  // number of draft tokens of the sequence before this one
  KvView kv;               // has room for the token
  // Row of the last run_mtp_head() whose logits gave the token; std::nullopt if the token follows
  // the sequence's newest token (see MtpHeadBlock).
  std::optional<uint32_t> previous_row = {};
};

// The forward pass of all model families. Walks the layers, each of which is a mixer (attention or
// recurrent) and a feed-forward; the blocks implement them. One thread.
class Decoder {
 public:
  // Allocates buffers for n_rows_max tokens per step. `model` and `backend` are borrowed.
  Decoder(const Model& model, Backend& backend, KvType kv_type, uint32_t n_rows_max);

  // Adds K of every following step to the statistics.
  void observe_keys(KeyStatistics* statistics) { attention_.observe_keys(statistics); }

  // Computes all new tokens of all sequences, n_rows_max at most, as one batch. The requested
  // logits and hidden states are available until the next step.
  void forward(std::span<const BatchSequence> batch);
  // Like forward(), but calls is_interrupted before each layer and stops if it returns true. In
  // that case returns false, and there are no logits. K and V of the new tokens may then be partly
  // written, and the recurrent states are lost.
  bool forward_interruptible(std::span<const BatchSequence> batch,
                             const std::function<bool()>& is_interrupted);

  // Accepts the first n_accepted_drafts[i] draft tokens of sequence i of the last step: they are
  // added to the recurrent state and to the state of the MTP head. Must be called before the next
  // step if the step had draft tokens.
  void accept(std::span<const uint32_t> n_accepted_drafts);
  // Maximum number of draft tokens of all sequences in a step; recurrent layers have buffers for so
  // many.
  uint32_t n_draft_tokens_max() const {
    return recurrent_ ? RecurrentBlock::kMaxDraftRows : UINT32_MAX;
  }

  // Discards the operations of a step that ran out of memory. As after an interrupted step, K and
  // V of its tokens may be partly written, and the recurrent states are lost.
  void abandon_step() { backend_.abandon_step(); }

  // Number of rows that the last step's sequences requested. Rows are numbered in the order of the
  // batch.
  size_t n_logits() const { return wanted_.size(); }
  // Returns the logits of a requested row in host memory: [n_vocab], valid until a row outside
  // [row, logits_end(row)) is requested. A few rows are computed together, so calling this in
  // ascending order computes each row once.
  std::span<const float> logits(size_t row);
  // Returns the end of the rows whose logits stay valid while those of `row` do.
  size_t logits_end(size_t row) const {
    return row - row % buffers_.logits.n_rows + buffers_.logits.n_rows;
  }
  // Returns the token with the largest logit of a row, the first one if there are several;
  // std::nullopt if no logit is finite.
  std::optional<TokenId> argmax(size_t row);
  // Returns the hidden state of a requested row after the final norm: [model_dim], valid until the
  // next call.
  std::span<const float> hidden(size_t row);

  // Returns whether the model has an MTP head, so that run_mtp_head() may be called.
  bool has_mtp_head() const { return mtp_head_.has_value(); }
  static constexpr uint32_t kMaxMtpHeadRows = MtpHeadBlock::kMaxRows;
  // Runs the MTP head on at most kMaxMtpHeadRows tokens, one per sequence, between two steps. Their
  // K and V are stored after those of their sequences, where the next run_mtp_head() reads them;
  // the next step overwrites them. The logits of the last step are lost.
  void run_mtp_head(std::span<const MtpHeadRow> rows);
  // Returns the logits that the last run_mtp_head() gave for the token after `rows[row]`:
  // [n_vocab], valid until the next step or run_mtp_head().
  std::span<const float> mtp_head_logits(size_t row) const;

  size_t page_bytes() const { return attention_.page_bytes(); }
  // Bytes of one open page of a sequence in all groups; 0 if there are none and KvView::open is
  // null.
  uint64_t open_page_bytes() const { return open_page_bytes_; }
  // Assignment of the layers to page groups. KvView::groups has one table for each group.
  const LayerGroups& groups() const { return attention_.groups(); }
  uint32_t n_rows_max() const { return n_rows_max_; }
  // Returns the bytes of all buffers of such a decoder, including those of its key bases and of the
  // statistics from which the bases are derived.
  static uint64_t buffer_bytes(const ModelConfig& config, KvType kv_type, uint32_t n_rows_max,
                               const Backend& backend);

 private:
  // All buffers of the step, which buffer_bytes() counts with the same code.
  struct Buffers {
    ResidualStream::Buffers stream;
    AttentionBlock::Buffers attention;
    RecurrentBlock::Buffers recurrent;
    Rows mlp;
    ExpertsBlock::Buffers experts;
    PerLayerInputs::Buffers per_layer;
    ResidualStreams::Buffers streams;
    HyperConnections::Buffers hyper;
    NgramBlock::Buffers ngrams;
    MtpHeadBlock::Buffers mtp_head;
    Rows logits;  // [a few, n_vocab]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  void lay_out(std::span<const BatchSequence> batch);
  void keep_rows(std::span<const uint32_t> rows);
  void mix(uint32_t layer);
  void finish(uint32_t layer);
  void feed_forward(uint32_t layer, ResidualStream& x);
  void update_mtp_head();
  void lay_out_mtp_head(std::span<const MtpHeadRow> rows);
  void run_assistant(ResidualStream& x);
  // Computes the logits of a row and of its neighbors, unless they are available already. Returns
  // the position of the row in buffers_.logits.
  uint32_t project(size_t row);
  void compute_argmax();
  std::span<std::byte* const> open_from(uint32_t group, uint32_t position) const;
  // Returns the logits of hidden states after the final norm, with the model's logit scale and soft
  // cap applied.
  Rows project_to_logits(Rows hidden, const PackedMatrix& head);
  void copy_draft_logits(Rows hidden);
  void copy_logits_to_host();
  void copy_to_host(Rows logits);

  const Model& model_;
  std::optional<TokenSwitch> switch_;  // only if the model has adapters of its own
  AdaptedBackend backend_;
  uint32_t n_rows_max_;
  RowBuffers memory_;
  Buffers buffers_;
  ResidualStream x_;
  AttentionBlock attention_;
  std::optional<RecurrentBlock> recurrent_;  // only if the model has recurrent layers
  MlpBlock mlp_;
  std::optional<MlpBlock> eagle_mlp_;  // of an EAGLE-3 head
  std::optional<ExpertsBlock> experts_;
  std::optional<PerLayerInputs> per_layer_;
  std::optional<ResidualStreams> streams_;
  std::optional<HyperConnections> hyper_;
  std::optional<NgramBlock> ngrams_;
  std::optional<MtpHeadBlock> mtp_head_;
  std::optional<OpenPages> open_pages_;  // only if uses_open_pages()
  uint64_t open_page_bytes_;
  // The last layer that writes K and V or updates a recurrent state. It is the MTP head if there
  // is one, so that all rows reach it.
  uint32_t last_writer_ = 0;
  std::vector<float> host_logits_;   // [rows of buffers_.logits, n_vocab]
  std::vector<float> host_hidden_;   // [model_dim]
  std::vector<float> draft_logits_;  // [rows of an EAGLE-3 head with a vocabulary of its own]

  // State of the current batch. A row is "wanted" if its logits or its hidden state are requested.
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;
  GroupRuns runs_;
  std::vector<RecurrentBlock::Run> states_;
  std::vector<MtpHeadBlock::Run> mtp_head_runs_;
  std::vector<uint32_t> wanted_;          // wanted rows of the batch, ascending
  std::optional<uint32_t> first_logits_;  // index in wanted_ of the first row that wants logits
  GroupRuns wanted_runs_;         // runs of the wanted rows after the other rows are dropped
  bool wants_likeliest_ = false;  // at least one row wants its likeliest token
  bool wants_logits_ = false;     // at least one row wants its logits
  // The rows of buffers_.logits are those of wanted_ from this index on.
  std::optional<uint32_t> first_projected_;
  uint32_t n_projected_ = 0;
  // True if likeliest_, or host_logits_, holds the results of these rows.
  bool has_likeliest_ = false, has_logits_ = false;
  std::vector<std::optional<TokenId>> likeliest_;  // [rows of buffers_.logits]
  std::vector<MtpHeadBlock::Row> mtp_head_rows_;
};

}  // namespace kvik
