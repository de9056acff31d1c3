#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "model/recurrent/recurrent_block.h"

namespace kvik {

// A convolution whose earlier inputs are a part of the sequences' states, outside of the recurrent
// layers. Its inputs of draft tokens are saved, so that replay() can update the states with the
// accepted ones. One thread.
class StateConv {
 public:
  // offset: of the inputs in a state, in floats. drafts: [kMaxDraftRows, channels].
  StateConv(Backend& backend, const ConvShape& shape, uint64_t offset, Rows drafts)
      : backend_(backend), shape_(shape), offset_(offset), drafts_(drafts) {}

  // out = the convolution of x, at all rows of the step.
  void run(RecurrentBlock& states, Rows x, Rows out) {
    const auto drafts = states.draft_rows();
    if (!drafts.empty()) {
      backend_.gather(x, drafts, drafts_.slice(0, static_cast<uint32_t>(drafts.size())));
    }
    backend_.short_conv(shape_, states.runs_at(offset_), x, out);
  }

  // Updates the states after RecurrentBlock::replay(). x and out are room for as many rows as there
  // are draft tokens.
  void replay(RecurrentBlock& states, Rows x, Rows out) {
    const auto accepted = states.accepted_rows();
    if (accepted.empty()) return;
    const auto n_rows = static_cast<uint32_t>(accepted.size());
    backend_.gather(drafts_, accepted, x.slice(0, n_rows));
    backend_.short_conv(shape_, states.runs_at(offset_), x.slice(0, n_rows), out.slice(0, n_rows));
  }

 private:
  Backend& backend_;
  const ConvShape shape_;
  const uint64_t offset_;
  const Rows drafts_;
};

}  // namespace kvik
