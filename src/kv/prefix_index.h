#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/token_id.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"

namespace kvik {

// Which pages hold the K and V of which tokens: a forest of sealed pages, each below the page that
// holds the tokens before its own. A page of fewer than kPageTokens tokens is the tail of a
// sequence that ended and has no children. Knows no contents and no owners. Engine thread only.
class PrefixIndex {
 public:
  // Pages that together hold the longest known prefix of a list of tokens.
  struct Match {
    std::vector<PageId> whole;   // all of their tokens match
    PageKey last;                // key of the last of them, else the root
    std::optional<PageId> head;  // a child of that whose first n_head tokens match too
    uint32_t n_head = 0;
  };
  Match find(const PageKey& root, std::span<const TokenId> tokens) const;

  // Makes a page findable below `parent` (kNew), unless its tokens are known there already, alone
  // or as the head of another page (kKnown, `page` is the one that holds them), or its key is that
  // of other tokens (kCollision).
  enum class Outcome { kNew, kKnown, kCollision };
  struct Insertion {
    Outcome outcome;
    PageId page;
  };
  Insertion insert(const PageKey& parent, std::span<const TokenId> tokens, PageId page);

  // Notes that a page was found once more.
  void touch(PageId page);

  // The page to give up next among those that `is_free_to_go(page)`: leaves first, a page found
  // twice after one found once (so that one long scan does not empty the cache), then the one that
  // was used longest ago. std::nullopt where there is none.
  template <class Predicate>
  std::optional<PageId> victim(const Predicate& is_free_to_go) const {
    for (const Rank& rank : leaves_) {
      const PageId page = std::get<PageId>(rank);
      if (is_free_to_go(page)) return page;
    }
    return std::nullopt;
  }

  // Forgets a leaf.
  void erase(PageId page);

  size_t n_pages() const { return nodes_.size(); }
  std::span<const TokenId> tokens_of(PageId page) const { return nodes_.at(page).tokens; }

 private:
  using Rank = std::tuple<bool, uint64_t, PageId>;  // found twice or more, last use, page
  struct Node {
    PageKey key, parent;
    std::vector<TokenId> tokens;
    uint64_t last_use = 0;
    uint32_t n_uses = 0;

    Rank rank(PageId page) const { return {n_uses > 1, last_use, page}; }
  };

  std::optional<PageId> find_whole(const PageKey& parent, std::span<const TokenId> tokens) const;
  std::span<const PageId> children(const PageKey& parent) const;

  std::unordered_map<PageId, Node> nodes_;
  std::unordered_map<PageKey, PageId, PageKeyHash> by_key_;
  std::unordered_map<PageKey, std::vector<PageId>, PageKeyHash> children_;
  std::set<Rank> leaves_;
  uint64_t n_ticks_ = 0;
};

}  // namespace kvik
