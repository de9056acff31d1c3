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

// What a prompt asks the cache for.
struct PrefixQuery {
  PageKey root;
  std::span<const TokenId> tokens;
  uint64_t tenant = 0;                                   // a hash
  std::shared_ptr<const std::string> adapter = nullptr;  // PageOwner::adapter
};

// What the cache has of one prompt: how many of its first tokens, from which tier, and why no more.
// Made by KvCache::find() and carried from the first look to admission; searched again only where
// pages came or went since. The pages are there as long as it holds leases on them; without, until
// the cache gives them up.
//
// Where a tier is asked for the rest, what it brings is held here too. The cache outlives it.
// Engine thread only.
class FoundPrefix {
 public:
  FoundPrefix() = default;  // nothing was searched for yet

  uint32_t n_tokens() const { return match_.n_tokens(); }
  // Tokens whose pages are there; more than n_tokens() where a state to go on from is missing.
  uint32_t n_known() const { return std::max(match_.n_known, n_tokens()); }
  uint32_t n_whole_tokens() const { return match_.n_whole * kPageTokens; }
  // Of the whole pages; the root where there are none.
  const PageKey& last_key() const { return last_key_; }
  // The snapshot that it goes on from, where there is one.
  struct Snapshot {
    PageKey key;
    SnapshotKind kind{};
  };
  const std::optional<Snapshot>& snapshot() const { return snapshot_; }
  CacheReport report() const;

  // A tier is asked for what is not there now: what is found from here on came from it.
  void begin_fetch() { n_in_memory_ = n_tokens(); }
  // Why a tier did not bring the rest.
  void note_tier_miss(MissReason reason) { tier_miss_ = reason; }

  void hold(PageLease lease) { leases_.push_back(std::move(lease)); }
  // Ends all leases.
  void let_go() { leases_.clear(); }

 private:
  friend class KvCache;
  void set(const PrefixQuery& query, const PrefixIndex::Match& match);

  PrefixIndex::Match match_;
  PageKey last_key_;
  std::optional<Snapshot> snapshot_;
  std::optional<TokenId> got_;  // where the prompt left what was known
  // When it was searched, in changes of the index, and for how many tokens; absent: never.
  std::optional<std::pair<uint64_t, size_t>> searched_;
  std::vector<PageLease> leases_;
  std::optional<uint32_t> n_in_memory_;
  std::optional<MissReason> tier_miss_;
};

}  // namespace kvik
