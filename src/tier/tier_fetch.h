#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
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

// A request to a tier for the pages of a prompt that is being computed (PageLoad): first finds the
// last page that the tier has, then reads from there towards the front.
struct TierLoad {
  FetchId id{};
  SharingMark reader = SharingMark::kAll;
  uint32_t first = 0;           // number of the prompt's pages before these
  std::vector<TierPage> pages;  // of a group with full attention
  std::vector<bool> is_done;    // by page: it has been read, or cannot be
  // Pages up to `present` exist, as far as known, and none from `absent` on does.
  uint32_t present = 0, absent = 0;
  // First page, as a number of the prompt's, that is worth reading.
  std::shared_ptr<const std::atomic<uint64_t>> front;

  // Returns the page to read next; std::nullopt: none.
  std::optional<uint32_t> next();
  // Records the result of reading a page.
  void note(uint32_t page, bool is_absent);
};

// Result of a fetch.
enum class FetchEnd { kComplete, kAbsent, kDamaged, kFailed, kCancelled };

// A page that was read, or the end of a fetch.
struct TierArrival {
  FetchId id{};
  TierPage page;
  uint32_t number = 0;  // of a load: number of the page in its prompt
  IncomingBytes bytes;  // of a page
  std::optional<FetchEnd> end;
};

}  // namespace kvik
