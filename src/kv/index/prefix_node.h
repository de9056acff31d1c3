#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"
#include "kv/sharing_mark.h"
#include "kv/snapshot_kind.h"
#include "tensor/kv_type.h"

namespace kvik {

// Up to kPageTokens tokens that follow those of the parent node, and the pages that hold their K
// and V, one for each layer group that still has one. A node with fewer than kPageTokens tokens is
// the tail of a sequence that ended; it has no children. Roots have neither tokens nor pages.
struct PrefixNode {
  PageKey key;
  PrefixNode* parent = nullptr;
  std::vector<TokenId> tokens;
  std::vector<std::optional<PageId>> pages;  // by layer group
  // Pages of the snapshot after these tokens (state or open page; KvLayout::has_snapshots());
  // empty: there is none. They are added and evicted together, and the first one represents all in
  // the ranking.
  std::vector<PageId> snapshot;
  SnapshotKind snapshot_kind = SnapshotKind::kGrid;
  // By layer group: number of children that have a page in it, plus snapshots that need the node's
  // own.
  std::vector<uint32_t> n_below;
  // Number of children that end inside a page and have a snapshot: each child's page may be needed
  // by one.
  uint32_t n_tail_snapshots = 0;
  std::vector<PrefixNode*> children;           // sorted by `known`, then by tokens
  SharingMark known = SharingMark::kAll;       // the readers that find it
  uint64_t tenant = 0;                         // hash of the tenant that inserted it
  std::shared_ptr<const std::string> adapter;  // PageOwner::adapter
  uint32_t depth = 0;                          // number of nodes above it, without the root

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

// Returns the length of the common prefix of `a` and `b`.
inline uint32_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t n = a.size() < b.size() ? a.size() : b.size();
  uint32_t i = 0;
  while (i < n && a[i] == b[i]) ++i;
  return i;
}

// Returns the tokens of page `index`; fewer than kPageTokens if they end in it.
inline std::span<const TokenId> page_at(std::span<const TokenId> tokens, size_t index) {
  const auto rest = tokens.subspan(index * kPageTokens);
  return rest.first(rest.size() < kPageTokens ? rest.size() : kPageTokens);
}

// Returns the position of the child with these tokens among the children of its parent, or where it
// would be inserted.
std::vector<PrefixNode*>::const_iterator place_of_child(const PrefixNode& parent, SharingMark known,
                                                        std::span<const TokenId> tokens);

// Iterates over the children of a node that a reader finds, in decreasing order of the prefix that
// they share with `tokens`. Children that the reader does not find cost no time.
class ChildrenByMatch {
 public:
  ChildrenByMatch(const PrefixNode& parent, SharingMark reader, std::span<const TokenId> tokens);

  struct Child {
    PrefixNode* node = nullptr;
    uint32_t n_shared = 0;
  };
  // Returns the next child; a null node after the last one.
  Child next();

 private:
  // Children of one mark. Those from `below` to `above` were returned already.
  struct Range {
    std::span<PrefixNode* const> children;
    size_t below = 0, above = 0;
  };
  static Range range_of(const PrefixNode& parent, SharingMark known,
                        std::span<const TokenId> tokens);
  Child at(const Range& range, size_t index) const {
    PrefixNode* node = range.children[index];
    return {node, common_prefix(node->tokens, tokens_)};
  }

  std::array<Range, 2>
      // Range of the nodes that all tenants find, and range of those that only the reader finds.
      ranges_;
  std::span<const TokenId> tokens_;
};

}  // namespace kvik
