#pragma once

#include <cstdint>
#include <vector>

#include "base/token_id.h"
#include "kv/known_by.h"
#include "kv/page_key.h"

namespace kvik {

// Page k of the snapshot of some tokens (KvLayout::has_snapshots()) is stored as theirs in group
// kSnapshotGroup + k: no model has so many layer groups.
inline constexpr uint32_t kSnapshotGroup = 1024;

// The record stored beside the bytes of a page. A key is no proof: readers compare all of it.
struct TierPage {
  PageKey root;                 // above the first page: model, KV type, layout, numerics, salt
  PageKey parent;               // the page before, or the root
  PageKey key;                  // child_key(parent, tokens)
  uint32_t group = 0;           // layer group
  std::vector<TokenId> tokens;  // 1 to kPageTokens
  KnownBy known = KnownBy::kNobody;

  // The same page; `known` may differ.
  friend bool operator==(const TierPage& a, const TierPage& b) {
    return a.root == b.root && a.parent == b.parent && a.key == b.key && a.group == b.group &&
           a.tokens == b.tokens;
  }
};

}  // namespace kvik
