#pragma once

#include <cstdint>
#include <vector>

#include "base/token_id.h"
#include "kv/page_key.h"
#include "kv/sharing_mark.h"

namespace kvik {

// Page k of a snapshot (KvLayout::has_snapshots()) is stored as group kSnapshotGroup + k. No model
// has that many layer groups.
inline constexpr uint32_t kSnapshotGroup = 1024;

// Record that a tier stores with the bytes of a page. A key proves nothing: readers compare the
// whole record.
struct TierPage {
  PageKey root;        // parent key of the first page: model, KV type, layout, numerics, salt
  PageKey parent;      // key of the page before, or the root
  PageKey key;         // child_key(parent, tokens)
  uint32_t group = 0;  // layer group
  std::vector<TokenId> tokens;  // 1 to kPageTokens
  SharingMark known = SharingMark::kNoTenant;

  // Compares everything but `known`.
  friend bool operator==(const TierPage& a, const TierPage& b) {
    return a.root == b.root && a.parent == b.parent && a.key == b.key && a.group == b.group &&
           a.tokens == b.tokens;
  }
};

}  // namespace kvik
