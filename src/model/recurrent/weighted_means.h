#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/recurrent/recurrent_block.h"

namespace kvik {

// Entries of values and gates in one layer (EntryShape): those that attention reads, or the keys of
// an indexer's blocks. The sums of an entry that is not complete are a part of the sequences'
// states. The inputs of draft tokens are saved, so that replay() can update the states with the
// accepted ones. One thread.
class WeightedMeans {
 public:
  // offset: of the sums in a state, in floats. drafts: [kMaxDraftRows, columns of the inputs].
  WeightedMeans(Backend& backend, const EntryShape& shape, uint64_t offset, Rows drafts)
      : backend_(backend), shape_(shape), offset_(offset), drafts_(drafts) {
    draft_positions_.reserve(drafts.n_rows);
    accepted_positions_.reserve(drafts.n_rows);
  }

  uint32_t dim() const { return shape_.dim; }
  uint32_t n_inputs() const { return drafts_.n_cols; }

  // out = the entries that end at rows of the step, elsewhere zero. x: [M, n_inputs()], out: [M,
  // dim()]; positions: of the rows.
  void run(RecurrentBlock& states, std::span<const uint32_t> positions, Rows x, Rows out) {
    const auto drafts = states.draft_rows();
    draft_positions_.clear();
    for (const uint32_t row : drafts) draft_positions_.push_back(positions[row]);
    if (!drafts.empty()) {
      backend_.gather(x, drafts, drafts_.slice(0, static_cast<uint32_t>(drafts.size())));
    }
    backend_.compress(shape_, states.runs_at(offset_), positions, x, out);
  }

  // Updates the states after RecurrentBlock::replay(). x and out are room for as many rows as there
  // are draft tokens.
  void replay(RecurrentBlock& states, Rows x, Rows out) {
    const auto accepted = states.accepted_rows();
    if (accepted.empty()) return;
    accepted_positions_.clear();
    for (const uint32_t row : accepted) accepted_positions_.push_back(draft_positions_[row]);
    const auto n_rows = static_cast<uint32_t>(accepted.size());
    const Rows inputs = x.slice(0, n_rows).columns(0, n_inputs());
    backend_.gather(drafts_, accepted, inputs);
    backend_.compress(shape_, states.runs_at(offset_), accepted_positions_, inputs,
                      out.slice(0, n_rows).columns(0, dim()));
  }

 private:
  Backend& backend_;
  const EntryShape shape_;
  const uint64_t offset_;
  const Rows drafts_;
  std::vector<uint32_t> draft_positions_;     // of the rows in drafts_
  std::vector<uint32_t> accepted_positions_;  // reused by replay()
};

}  // namespace kvik
