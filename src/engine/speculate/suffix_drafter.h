#pragma once

#include "engine/speculate/drafter.h"

namespace kvik {

// Proposes the tokens that followed the earlier occurrence of the longest suffix of prompt and
// answer. It continues with a copy as long as this matches more tokens than any other occurrence.
class SuffixDrafter final : public Drafter {
 public:
  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override;
};

// Proposes tokens near the position where the answer stopped following a copy. In an edit a word is
// replaced or a line is inserted or deleted, and then the copy continues. Uses the state of
// SuffixDrafter and must be called after it.
class ResumeDrafter final : public Drafter {
 public:
  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override;
};

}  // namespace kvik
