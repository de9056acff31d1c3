#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/token_id.h"
#include "kv/page_key.h"
#include "kv/page_pool.h"

namespace kvik {

// A known stretch of up to kPageTokens tokens behind those of its parent, and the pages that hold
// their K and V, one for each layer group that still has one. Fewer than kPageTokens: the tail of
// a sequence that ended, which has no children. Roots have no tokens and no pages.
struct PrefixNode {
  PageKey key;
  PrefixNode* parent = nullptr;
  std::vector<TokenId> tokens;
  std::vector<std::optional<PageId>> pages;  // by layer group
  std::vector<uint32_t> n_below;             // by layer group: children that have a page in it
  std::vector<PrefixNode*> children;         // in the order of their tokens
  uint64_t tenant = 0;                       // who made it

  bool is_whole() const {
    for (const auto& page : pages) {
      if (!page) return false;
    }
    return true;
  }
  bool has_pages() const {
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

// The children of a node in falling order of what they share with `tokens`.
class ChildrenByMatch {
 public:
  ChildrenByMatch(const PrefixNode& parent, std::span<const TokenId> tokens);

  struct Child {
    PrefixNode* node = nullptr;
    uint32_t n_shared = 0;
  };
  // The next one; a null node behind the last.
  Child next();

 private:
  uint32_t shared_with(size_t index) const {
    return common_prefix(children_[index]->tokens, tokens_);
  }

  std::span<PrefixNode* const> children_;
  std::span<const TokenId> tokens_;
  size_t below_ = 0, above_ = 0;  // children in between were handed out
};

}  // namespace kvik
