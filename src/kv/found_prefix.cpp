#include "kv/found_prefix.h"

#include <algorithm>

namespace kvik {

CacheReport FoundPrefix::report() const {
  const uint32_t n_in_memory = std::min(n_tokens(), n_in_memory_.value_or(n_tokens()));
  CacheReport report;
  report.ram_tokens = n_in_memory;
  report.tier_tokens = n_tokens() - n_in_memory;
  if (match_.miss == MissReason::kNone) return report;
  report.miss = tier_miss_.value_or(match_.miss);
  report.position = n_tokens() + match_.n_uncached_match;
  report.expected = match_.expected;
  report.got = got_;
  return report;
}

void FoundPrefix::note_unread_tier(MissReason reason) {
  if (match_.miss == MissReason::kNeverSeen || was_evicted()) note_tier_miss(reason);
}

void FoundPrefix::set(const PrefixQuery& query, const PrefixIndex::Match& match) {
  match_ = match;
  last_key_ = match.last ? match.last->key : query.root;
  continues_conversation_ = match.last && match.last->children.size() <= 1;
  snapshot_.reset();
  if (match.snapshot) snapshot_ = {match.snapshot->key, match.snapshot->snapshot_kind};
  got_.reset();
  if (match.expected) got_ = query.tokens[n_tokens() + match.n_uncached_match];
}

}  // namespace kvik
