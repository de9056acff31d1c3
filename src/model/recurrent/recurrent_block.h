#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/model.h"
#include "model/recurrent/state_layout.h"
#include "model/residual_stream.h"
#include "model/row_buffers.h"

namespace kvik {

// Returns the shape of the matrices in a layer's state; std::nullopt if the layer has none.
std::optional<RecurrenceShape> recurrence_of(const LayerConfig& layer);

// The mixer of a recurrent layer (recurrent_config.h). Per layer, the decoder calls advance(),
// which updates the states with all rows of the step but the draft tokens; keep(), only in the last
// layer that writes, which drops the rows whose outputs are not needed; and finish(), which adds to
// the residual stream. The inputs of the recurrence for draft tokens are saved, so that replay()
// can update the states with the accepted ones after the step. One thread.
class RecurrentBlock {
 public:
  // maximum number of draft tokens of all sequences in a step
  static constexpr uint32_t kMaxDraftRows = 32;

  // Buffers that all layers share, except for `draft_inputs`.
  struct Buffers {
    Rows in;     // [n_rows_max, in_dim of the widest layer]
    Rows mixed;  // [n_rows_max, channels], output of the convolution
    Rows heads;  // [n_rows_max, output dimensions of the heads]
    Rows kept;   // the same, for the rows that keep() leaves
    // [n_rows_max, n_heads], or values of channels; not for the gated delta rule
    Rows decay;
    // By layer: [kMaxDraftRows, columns that its recurrence reads], saved inputs of draft
    // tokens.
    std::vector<Rows> draft_inputs;
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model`, which must have recurrent layers, and `backend` are borrowed.
  RecurrentBlock(const Model& model, Backend& backend, const Buffers& buffers);

  // State and rows of one of the step's sequences.
  struct Run {
    std::byte* state = nullptr;
    uint32_t first_row = 0, n_rows = 0;
    uint32_t n_draft_tokens = 0;  // number of draft tokens, which are the last rows
  };
  // Starts a step, of which at most kMaxDraftRows rows are draft tokens. `runs` is borrowed
  // until it ends.
  void begin_step(std::span<const Run> runs);
  void advance(uint32_t layer, ResidualStream& x);
  // Drops all rows but these, which become adjacent.
  void keep(std::span<const uint32_t> rows);
  // x += output(heads)
  void finish(uint32_t layer, ResidualStream& x);
  // Updates the states of all layers with the first n_accepted_drafts[i] draft tokens of run i of
  // the step.
  void replay(std::span<const uint32_t> n_accepted_drafts);

  // Returns the step's runs, or after replay() those of the accepted draft tokens, with the address
  // of the part of the state that begins at `offset` floats. Valid until the next call.
  std::span<const StateRun> runs_at(uint64_t offset);
  // Rows of the step that are draft tokens, and after replay() the indices among them of those that
  // were accepted.
  std::span<const uint32_t> draft_rows() const { return draft_rows_; }
  std::span<const uint32_t> accepted_rows() const { return accepted_rows_; }
  const StateLayout& layout() const { return layout_; }

 private:
  void advance(const DeltaConfig& d, uint32_t layer, ResidualStream& x);
  void advance(const ShortConvConfig& s, uint32_t layer, ResidualStream& x);
  void advance(const StateSpaceConfig& s, uint32_t layer, ResidualStream& x);
  void advance(const KdaConfig& k, uint32_t layer, ResidualStream& x);
  void advance(const SelectiveConfig& s, uint32_t layer, ResidualStream& x);
  void scale_inputs(const StateSpaceConfig& s, Rows in);
  // Computes the recurrence of the first n_rows of `in`; the result is heads_.
  void recur(const DeltaConfig& d, uint32_t layer, uint32_t n_rows);
  void recur(const ShortConvConfig& s, uint32_t layer, uint32_t n_rows);
  void recur(const StateSpaceConfig& s, uint32_t layer, uint32_t n_rows);
  void recur(const KdaConfig& k, uint32_t layer, uint32_t n_rows);
  void recur(const SelectiveConfig& s, uint32_t layer, uint32_t n_rows);
  // Save the columns of `in` that the recurrence reads for draft tokens, and restore those of the
  // accepted ones.
  template <class Mixer>
  void save_draft_inputs(const Mixer& mixer, uint32_t layer);
  template <class Mixer>
  void restore_draft_inputs(const Mixer& mixer, uint32_t layer);

  const Model& model_;
  Backend& backend_;
  const StateLayout layout_;
  Buffers buffers_;
  std::span<const Run> runs_;
  std::vector<Run> accepted_runs_;       // accepted draft tokens, as runs of a step of their own
  std::vector<uint32_t> draft_rows_;     // rows of the step that are draft tokens
  std::vector<uint32_t> accepted_rows_;  // indices of the accepted ones in draft_rows_
  std::vector<float> zeros_;             // as many as there are heads, for KDA
  std::vector<StateRun> state_runs_;     // runs with the address of one part of a layer's state
  Rows heads_;                           // output of the heads for the remaining rows
};

}  // namespace kvik
