#include "engine/speculate/cached_page_drafter.h"

#include "engine/sequence.h"

namespace kvik {

CachedPageReader CachedPageDrafter::reader_of(const Sequence& sequence) const {
  return {.root = sequence.root(), .as = kv_.pages().mark_of(sequence.table.owner.tenant)};
}

void CachedPageDrafter::propose(Sequence& sequence, uint32_t n_max, Draft& draft) {
  const CachedPageReader reader = reader_of(sequence);
  const auto match = index_.find(sequence.tokens, reader);
  if (!match) return;
  CachedTokenPosition place = match->next;
  for (uint32_t i = 0; i < n_max && place.node; ++i, place = index_.next_after(place, reader)) {
    draft.push_back({place.node->tokens[place.offset],
                     DraftKind::of_match(DraftSource::kChain, match->n_matched + i)});
  }
}

// Adds only the tokens that this sequence computed: cached tokens were added by the sequence that
// computed them, except those that came from a tier.
void CachedPageDrafter::remember(const Sequence& sequence) {
  if (!sequence.uses_cache()) return;
  const bool is_of_tier = sequence.usage.cache.tier_tokens > 0;
  index_.add(sequence.table, reader_of(sequence), sequence.cached_tokens(),
             is_of_tier ? 0 : sequence.usage.cached_tokens);
}

}  // namespace kvik
