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
#include "model/attention_block.h"
#include "model/experts_block.h"
#include "model/guesser_block.h"
#include "model/layer_groups.h"
#include "model/mlp_block.h"
#include "model/model.h"
#include "model/open_pages.h"
#include "model/per_layer_inputs.h"
#include "model/recurrent/recurrent_block.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// What is wanted of a sequence's new tokens: of the last n_last of them, or of all if there are
// fewer, the logits, or the hidden states in their place. Of logits it may be said that it will
// only be asked which is the largest: the others then stay where they are, unless they are asked
// for all the same.
struct WantLogits {
  uint32_t n_last = 0;
  bool is_hidden = false;
  bool is_likeliest = false;

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
  const Adapter* adapter = nullptr;  // null: the model as it is
  uint32_t n_guesses = 0;            // of the tokens, the last ones, which may turn out not to come
};

// A token behind which the guesser is asked (guesser_block.h).
struct GuessRow {
  TokenId token = 0;
  uint32_t position = 0;  // not 0
  KvView kv;              // with room for the token
  // The row of the last guess() that gave the token; none: it is the one behind the newest whose
  // state is kept.
  std::optional<uint32_t> behind = {};
};

// The forward pass: one for all families. Walks the layers, each of which is a mixer and a
// feed-forward; what these do, their blocks know. One thread.
class Decoder {
 public:
  // `model` and `backend` are borrowed. Buffers for n_rows_max tokens a step are allocated here.
  Decoder(const Model& model, Backend& backend, KvType kv_type, uint32_t n_rows_max);

  // Counts K of each step from now on.
  void observe_keys(KeyStatistics* statistics) { attention_.observe_keys(statistics); }

  // Runs all new tokens of all sequences, n_rows_max at most, as one batch. The logits and hidden
  // states that they want can be had until the next step.
  void forward(std::span<const BatchSequence> batch);
  // The same, but for a step that is given up between two layers: false then, and there are no
  // logits. K and V of the new tokens may be written in part; recurrent states are lost.
  bool forward_unless(std::span<const BatchSequence> batch,
                      const std::function<bool()>& is_given_up);

  // Of each sequence of the last step's batch, so many of its guesses came true, and enter the
  // state; before the next step, where any was a guess.
  void accept(std::span<const uint32_t> n_true);
  // Guesses that a step may have, of all sequences: what states keep of them is kept for so many.
  uint32_t n_guesses_max() const {
    return recurrent_ ? RecurrentBlock::kMostGuessedRows : UINT32_MAX;
  }

  // A step that was broken off, for want of memory, does nothing more.
  void abandon_step() { backend_.abandon_step(); }

  // Rows that the last step's sequences want, in the order of the batch.
  size_t n_logits() const { return wanted_.size(); }
  // Logits of one of them in host memory, [n_vocab], valid until another row is asked for. A few
  // rows are computed together: asking in ascending order computes each once.
  std::span<const float> logits(size_t row);
  // The token that has the largest of them, the first of several; none where no logit is a finite
  // number.
  std::optional<TokenId> likeliest(size_t row);
  // The hidden state of one of them behind the last norm, [model_dim], valid until another is asked
  // for.
  std::span<const float> hidden(size_t row);

  // Whether guess() can be asked.
  bool has_guesser() const { return guesser_.has_value(); }
  static constexpr uint32_t kMostGuessRows = GuesserBlock::kMostRows;
  // What the guesser makes of kMostGuessRows tokens at most, one of each sequence, between two
  // steps. Their K and V lie behind those of their sequences, for the next guess; a step overwrites
  // them. The logits of the last step are gone.
  void guess(std::span<const GuessRow> rows);
  // Logits of one of them, of the token behind it, [n_vocab], valid until the next step or guess.
  std::span<const float> guess_logits(size_t row) const;

  size_t page_bytes() const { return attention_.page_bytes(); }
  // Bytes of one open page of a sequence in all groups; 0 if there are none and KvView::open is
  // null.
  uint64_t open_page_bytes() const { return open_page_bytes_; }
  // How the layers share out the pages; KvView::groups has a table for each of these groups.
  const LayerGroups& groups() const { return attention_.groups(); }
  uint32_t n_rows_max() const { return n_rows_max_; }
  // Returns the bytes of all buffers of such a decoder, those of its key bases and of the
  // statistics that they are made from included.
  static uint64_t buffer_bytes(const ModelConfig& config, KvType kv_type, uint32_t n_rows_max,
                               const Backend& backend);

 private:
  // Taken together, and counted together by buffer_bytes().
  struct Buffers {
    ResidualStream::Buffers stream;
    AttentionBlock::Buffers attention;
    RecurrentBlock::Buffers recurrent;
    Rows mlp;
    ExpertsBlock::Buffers experts;
    PerLayerInputs::Buffers per_layer;
    GuesserBlock::Buffers guesser;
    Rows logits;  // [a few, n_vocab]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  void lay_out(std::span<const BatchSequence> batch);
  void mix(uint32_t layer);
  void finish(uint32_t layer);
  void feed_forward(uint32_t layer, ResidualStream& x);
  void follow();
  // Has the logits of a row and those beside it computed; its place among them.
  uint32_t project(size_t row);
  void find_likeliest();
  // head(hidden)
  Rows meet_head(Rows hidden);
  void bring_logits();
  void bring(Rows logits);

  const Model& model_;
  AdaptedBackend backend_;
  uint32_t n_rows_max_;
  RowBuffers memory_;
  Buffers buffers_;
  ResidualStream x_;
  AttentionBlock attention_;
  std::optional<RecurrentBlock> recurrent_;  // of a model that has such layers
  MlpBlock mlp_;
  std::optional<ExpertsBlock> experts_;
  std::optional<PerLayerInputs> per_layer_;
  std::optional<GuesserBlock> guesser_;
  std::optional<OpenPages> open_pages_;  // of a model and a type that have them
  uint64_t open_page_bytes_;
  uint32_t last_writer_ = 0;        // the last layer that has K and V of its own, or the guesser
  std::vector<float> host_logits_;  // of as many rows as buffers_.logits
  std::vector<float> host_hidden_;  // [model_dim]

  // Of the current batch. A row is wanted where its logits or its hidden state are.
  std::vector<TokenId> tokens_;
  std::vector<uint32_t> positions_;
  GroupRuns runs_;
  std::vector<RecurrentBlock::Run> states_;
  std::vector<uint32_t> wanted_;             // rows, ascending
  std::optional<uint32_t> first_logits_;     // of them, the first whose logits are wanted
  GroupRuns wanted_runs_;                    // the same rows as runs, once they lie side by side
  bool wants_likeliest_ = false;             // of one of them
  bool wants_logits_ = false;                // likewise
  std::optional<uint32_t> first_projected_;  // of the rows whose logits are computed
  uint32_t n_projected_ = 0;
  bool has_likeliest_ = false, has_logits_ = false;  // of all of those, on the host
  std::vector<std::optional<TokenId>> likeliest_;    // of as many rows as buffers_.logits
  std::vector<GuesserBlock::Row> guess_rows_;
};

}  // namespace kvik
