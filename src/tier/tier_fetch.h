#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/copy_lane.h"
#include "kv/group_rule.h"
#include "tier/tier.h"

namespace kvik {

enum class FetchId : uint64_t {};

// A request to a tier: the longest chain of pages that hold the tokens of a prompt.
struct TierFetch {
  FetchId id{};
  PageKey root;
  PageKey parent;                // last page in memory, or the root
  uint32_t n_before = 0;         // tokens up to its end
  std::vector<TokenId> tokens;   // tokens after it
  std::vector<GroupRule> rules;  // rules of the layer groups
  SharingMark reader = SharingMark::kAll;
  // A sequence with recurrent state needs a snapshot at the end of the chain; one with open pages
  // needs it only to resume inside a page.
  bool has_state = false;
  uint32_t n_snapshot_pages = 0;
  uint32_t n_resumed = 0;  // tokens up to the snapshot in memory
};

// Result of a fetch.
enum class FetchEnd { kComplete, kAbsent, kDamaged, kFailed, kCancelled };

// A page that was read, or the end of a fetch.
struct TierArrival {
  FetchId id{};
  TierPage page;
  IncomingBytes bytes;  // of a page
  std::optional<FetchEnd> end;
};

}  // namespace kvik
