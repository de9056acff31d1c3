#pragma once

#include "engine/speculate/drafter.h"

namespace kvik {

// What stood behind the longest suffix of prompt and answer that stood in them before. A copy that
// goes on is followed for as long as it matches more than what else is found.
class SuffixDrafter final : public Drafter {
 public:
  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;
};

// What stands near the place where a copy was left: in an edit one word stands for another, a line
// is new or missing, and then the copy goes on. Looks where SuffixDrafter was; comes behind it.
class ResumeDrafter final : public Drafter {
 public:
  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;
};

}  // namespace kvik
