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

// The matrices that a layer keeps in the state; none where it keeps none.
std::optional<RecurrenceShape> recurrence_of(const LayerConfig& layer);

// The mixer of a layer that remembers in a state (recurrent_config.h). A layer's turn is advance(),
// in which all rows of a step but guesses leave their trace in their sequences' states; keep(), in
// the last layer, where only some rows have anything left to give; and finish(), which adds to the
// stream. Guesses that came true leave theirs when the step is over, in replay(): what the
// recurrence met of them was put aside.
// One thread.
class RecurrentBlock {
 public:
  static constexpr uint32_t kMostGuessedRows = 32;  // of all sequences of a step

  // What all its layers work in.
  struct Buffers {
    Rows in;     // [n_rows_max, the widest layer's in_dim]
    Rows mixed;  // [n_rows_max, channels] behind the convolution
    Rows heads;  // [n_rows_max, what the heads give]
    Rows kept;   // likewise, of the rows that are kept
    Rows decay;  // [n_rows_max, n_heads] of a state space
    std::vector<Rows>
        guesses;  // of each layer, [kMostGuessedRows, what its recurrence meets of a row]
    static Buffers take(const ModelConfig& config, uint32_t n_rows_max, RowBuffers& buffers);
  };

  // `model`, which has such layers, and `backend` are borrowed.
  RecurrentBlock(const Model& model, Backend& backend, const Buffers& buffers);

  // The whole state of one of the step's sequences, and its rows.
  struct Run {
    std::byte* state = nullptr;
    uint32_t first_row = 0, n_rows = 0;
    uint32_t n_guesses = 0;  // the last ones
  };
  // `runs` is borrowed for the step; kMostGuessedRows of its rows at most are guesses.
  void begin_step(std::span<const Run> runs);
  void advance(uint32_t layer, ResidualStream& x);
  // Only these rows go on, side by side.
  void keep(std::span<const uint32_t> rows);
  // x += output(what the heads gave)
  void finish(uint32_t layer, ResidualStream& x);
  // Of run i of the step, the first n_true[i] of its guesses: in all layers they leave their trace.
  void replay(std::span<const uint32_t> n_true);

 private:
  std::span<const StateRun> runs_at(uint64_t offset);
  void advance(const DeltaConfig& d, uint32_t layer, ResidualStream& x);
  void advance(const ShortConvConfig& s, uint32_t layer, ResidualStream& x);
  void advance(const StateSpaceConfig& s, uint32_t layer, ResidualStream& x);
  // What the recurrence makes of the first n_rows of `in`, in heads_.
  void recur(const DeltaConfig& d, uint32_t layer, uint32_t n_rows);
  void recur(const ShortConvConfig& s, uint32_t layer, uint32_t n_rows);
  void recur(const StateSpaceConfig& s, uint32_t layer, uint32_t n_rows);
  // Columns of `in` that the recurrence meets, put aside or brought back.
  template <class Mixer>
  void put_aside(const Mixer& mixer, uint32_t layer);
  template <class Mixer>
  void bring_back(const Mixer& mixer, uint32_t layer);

  const Model& model_;
  Backend& backend_;
  const StateLayout layout_;
  Buffers buffers_;
  std::span<const Run> runs_;
  std::vector<Run> true_runs_;  // of the guesses that came true, as rows of a step of theirs
  std::vector<uint32_t> guessed_rows_;  // rows of the step, one for each that was put aside
  std::vector<uint32_t> true_rows_;     // which of those
  std::vector<StateRun> state_runs_;    // of one part of a layer's state
  Rows heads_;                          // of the rows that go on
};

}  // namespace kvik
