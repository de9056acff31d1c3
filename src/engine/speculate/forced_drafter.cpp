#include "engine/speculate/forced_drafter.h"

#include <algorithm>

#include "engine/sequence.h"

namespace kvik {

void ForcedDrafter::propose(Sequence& sequence, uint32_t n_max, Draft& draft) {
  if (!sequence.next_tokens) return;
  const auto forced = sequence.next_tokens->forced();
  for (const TokenId token : forced.first(std::min<size_t>(forced.size(), n_max))) {
    draft.push_back({token, {DraftSource::kForced, 0}});
  }
}

}  // namespace kvik
