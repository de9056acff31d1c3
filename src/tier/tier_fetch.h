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

// What a prompt wants of a tier: the longest chain of pages that hold its tokens.
struct TierFetch {
  FetchId id{};
  PageKey root;
  PageKey parent;                // the last page that memory has, or the root
  uint32_t n_before = 0;         // tokens up to its end
  std::vector<TokenId> tokens;   // behind it
  std::vector<GroupRule> rules;  // of the layer groups
  KnownBy reader = KnownBy::kAll;
  // A sequence with a state needs a snapshot after the chain; one with open pages needs it only to
  // continue inside a page.
  bool has_state = false;
  uint32_t n_snapshot_pages = 0;
  uint32_t n_resumed = 0;  // tokens up to the snapshot that memory has
};

// How a fetch ended.
enum class FetchEnd { kComplete, kAbsent, kDamaged, kFailed, kCancelled };

// A page that came, or the end of a fetch.
struct TierArrival {
  FetchId id{};
  TierPage page;
  IncomingBytes bytes;  // of a page
  std::optional<FetchEnd> end;
};

}  // namespace kvik
