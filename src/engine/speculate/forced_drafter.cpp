#include "engine/speculate/forced_drafter.h"

#include "engine/request/sequence.h"

namespace kvik {

void ForcedDrafter::propose(Sequence& sequence, uint32_t n_most, Draft& draft) {
  if (!sequence.constraint) return;
  tokens_.clear();
  sequence.constraint->constraint().forced(n_most, tokens_);
  for (const TokenId token : tokens_) draft.push_back({token, {GuessSource::kForced, 0}});
}

}  // namespace kvik
