#pragma once

#include "engine/speculate/drafter.h"

namespace kvik {

// Proposes the tokens that a constraint forces. They are always accepted.
class ForcedDrafter final : public Drafter {
 public:
  void propose(Sequence& sequence, uint32_t n_max, Draft& draft) override;
};

}  // namespace kvik
