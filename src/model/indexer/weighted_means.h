#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "model/recurrent/recurrent_block.h"

namespace kvik {

// The keys of an indexer's blocks in one layer, which are entries of values and gates (EntryShape).
// The sums of a block that is not complete are a part of the sequences' states. The inputs of draft
// tokens are saved, so that replay() can update the states with the accepted ones. One thread.
class WeightedMeans {
 public:
  // offset: of the sums in a state, in floats. drafts: [kMaxDraftRows, columns of the inputs].
  WeightedMeans(Backend& backend, const EntryShape& shape, uint64_t offset, Rows drafts)
      : backend_(backend), shape_(shape), offset_(offset), drafts_(drafts) {}

  // out = the keys of the blocks that end at rows of the step, elsewhere zero.
  void run(RecurrentBlock& states, std::span<const uint32_t> positions, Rows x, Rows out) {
    const auto drafts = states.draft_rows();
    if (!drafts.empty()) {
      backend_.gather(x, drafts, drafts_.slice(0, static_cast<uint32_t>(drafts.size())));
    }
    backend_.compress(shape_, states.runs_at(offset_), positions, x, out);
  }

  // Updates the states after RecurrentBlock::replay(). positions: of the accepted draft tokens. x
  // and out are room for as many rows as there are draft tokens.
  void replay(RecurrentBlock& states, std::span<const uint32_t> positions, Rows x, Rows out) {
    const auto accepted = states.accepted_rows();
    if (accepted.empty()) return;
    const auto n_rows = static_cast<uint32_t>(accepted.size());
    const Rows inputs = x.slice(0, n_rows).columns(0, drafts_.n_cols);
    backend_.gather(drafts_, accepted, inputs);
    backend_.compress(shape_, states.runs_at(offset_), positions, inputs,
                      out.slice(0, n_rows).columns(0, shape_.dim));
  }

 private:
  Backend& backend_;
  const EntryShape shape_;
  const uint64_t offset_;
  const Rows drafts_;
};

}  // namespace kvik
