#pragma once

#include <vector>

#include "engine/speculate/drafter.h"

namespace kvik {

// The tokens that a constraint leaves no choice about: always right.
class ForcedDrafter final : public Drafter {
 public:
  void propose(Sequence& sequence, uint32_t n_most, Draft& draft) override;

 private:
  std::vector<TokenId> tokens_;
};

}  // namespace kvik
