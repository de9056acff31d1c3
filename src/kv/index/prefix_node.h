#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "kv/known_by.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"
#include "kv/snapshot_kind.h"
#include "tensor/kv_type.h"

namespace kvik {

// A known stretch of up to kPageTokens tokens behind those of its parent, and the pages that hold
// their K and V, one for each layer group that still has one. Fewer than kPageTokens: the tail of
// a sequence that ended, which has no children. Roots have no tokens and no pages.
struct PrefixNode {
  PageKey key;
  PrefixNode* parent = nullptr;
  std::vector<TokenId> tokens;
  std::vector<std::optional<PageId>> pages;  // by layer group
  // Pages with the state after these tokens, or with their open page (a snapshot,
  // KvLayout::has_snapshots()); empty: there is none. They come and go together, the first of them
  // speaks for all.
  std::vector<PageId> snapshot;
  SnapshotKind snapshot_kind = SnapshotKind::kGrid;
  // By layer group: children that have a page in it, and snapshots that need the node's own.
  std::vector<uint32_t> n_below;
  // Children that end inside a page and have a snapshot: any child's page may be what it needs.
  uint32_t n_tail_snapshots = 0;
  std::vector<PrefixNode*> children;  // by who knows them, then in the order of their tokens
  KnownBy known = KnownBy::kAll;      // and so who finds it
  uint64_t tenant = 0;                // who made it
  std::shared_ptr<const std::string> adapter;  // PageOwner::adapter
  uint32_t depth = 0;                          // nodes above it, but for the root

  bool is_whole() const {
    for (const auto& page : pages) {
      if (!page) return false;
    }
    return true;
  }
  bool has_pages() const {
    if (!snapshot.empty()) return true;
    for (const auto& page : pages) {
      if (page) return true;
    }
    return false;
  }
};

// How many of their first tokens two lists share.
inline uint32_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = a.size() < b.size() ? a.size() : b.size();
  uint32_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

// The tokens of page `index`, fewer where they end in it.
inline std::span<const TokenId> page_at(std::span<const TokenId> tokens, size_t index) {
  const auto rest = tokens.subspan(index * kPageTokens);
  return rest.first(rest.size() < kPageTokens ? rest.size() : kPageTokens);
}

// Where a child of these tokens stands, or would stand, among those of its parent.
std::vector<PrefixNode*>::const_iterator place_of_child(const PrefixNode& parent, KnownBy known,
                                                        std::span<const TokenId> tokens);

// The children of a node that a reader finds, in falling order of what they share with `tokens`.
// What others keep to themselves costs no time: it is not looked at.
class ChildrenByMatch {
 public:
  ChildrenByMatch(const PrefixNode& parent, KnownBy reader, std::span<const TokenId> tokens);

  struct Child {
    PrefixNode* node = nullptr;
    uint32_t n_shared = 0;
  };
  // The next one; a null node behind the last.
  Child next();

 private:
  // Children of one mark. Those from `below` to `above` were handed out.
  struct Range {
    std::span<PrefixNode* const> children;
    size_t below = 0, above = 0;
  };
  static Range range_of(const PrefixNode& parent, KnownBy known, std::span<const TokenId> tokens);
  Child at(const Range& range, size_t index) const {
    PrefixNode* node = range.children[index];
    return {node, common_prefix(node->tokens, tokens_)};
  }

  std::array<Range, 2> ranges_;  // what all know, and what the reader alone does
  std::span<const TokenId> tokens_;
};

}  // namespace kvik
