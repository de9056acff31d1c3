#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/token_id.h"
#include "kv/cache_report.h"
#include "kv/index/prefix_index.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"

namespace kvik {

// A prefix cache lookup for one prompt.
struct PrefixQuery {
  PageKey root;
  std::span<const TokenId> tokens;
  uint64_t tenant = 0;                                   // hash of the tenant's name
  std::shared_ptr<const std::string> adapter = nullptr;  // PageOwner::adapter
};

// Cached prefix of one prompt: the number of its tokens, their tiers, and the reason of the miss.
// Made by KvCache::find() and passed from the first lookup to admission; the index is searched
// again only if pages were added or evicted since. The pages cannot be evicted while this object
// holds leases on them.
//
// Pages that a tier fetches for the rest of the prompt are also leased here. The cache outlives
// this object. Engine thread only.
class FoundPrefix {
 public:
  FoundPrefix() = default;  // no lookup yet

  uint32_t n_tokens() const { return match_.n_tokens(); }
  // Number of tokens whose pages are cached. More than n_tokens() if the state snapshot needed to
  // resume there is missing.
  uint32_t n_known() const { return std::max(match_.n_known, n_tokens()); }
  uint32_t n_whole_tokens() const { return match_.n_whole * kPageTokens; }
  // Key of the last whole page; the root key if there is none.
  const PageKey& last_key() const { return last_key_; }
  // Returns whether the prompt continues a cached conversation: its prefix is not one that several
  // conversations have in common.
  bool continues_conversation() const { return continues_conversation_; }
  // Returns whether more of the prompt was cached and has been evicted.
  bool was_evicted() const { return match_.miss == MissReason::kEvicted; }
  // The snapshot that the sequence resumes from, if any.
  struct Snapshot {
    PageKey key;
    SnapshotKind kind{};
  };
  const std::optional<Snapshot>& snapshot() const { return snapshot_; }
  CacheReport report() const;

  // Call when a tier starts to fetch the rest: tokens found from now on count as cached in the
  // tier.
  void begin_fetch() {
    n_in_memory_ = n_tokens();
    tier_miss_.reset();
  }
  // Records why a tier did not fetch the rest.
  void note_tier_miss(MissReason reason) { tier_miss_ = reason; }
  // Likewise, for a tier that may not have the rest: if memory has another continuation of the
  // prefix, that remains the reason.
  void note_unread_tier(MissReason reason);

  void hold(PageLease lease) { leases_.push_back(std::move(lease)); }
  // Releases all leases.
  void let_go() { leases_.clear(); }

 private:
  friend class KvCache;
  void set(const PrefixQuery& query, const PrefixIndex::Match& match);

  PrefixIndex::Match match_;
  PageKey last_key_;
  bool continues_conversation_ = false;
  std::optional<Snapshot> snapshot_;
  std::optional<TokenId> got_;  // the prompt's token at the point of divergence
  // PrefixIndex::n_changes() and number of prompt tokens at the last search; absent: never
  // searched.
  std::optional<std::pair<uint64_t, size_t>> searched_;
  std::vector<PageLease> leases_;
  std::optional<uint32_t> n_in_memory_;
  std::optional<MissReason> tier_miss_;
};

}  // namespace kvik
