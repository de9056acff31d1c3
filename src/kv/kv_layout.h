#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kv/group_rule.h"
#include "tensor/kv_type.h"

namespace kvik {

// Layout of a model's K and V in pages. A layer group is a set of layers with the same attention
// span. A page holds kPageTokens tokens of one group, and the pages of all groups have the same
// size, so that any free page serves any group and the budget is not divided among them.
struct KvLayout {
  explicit KvLayout(size_t bytes, std::vector<GroupRule> rules_of_groups = {GroupRule()})
      : page_bytes(bytes), rules(std::move(rules_of_groups)) {}

  size_t page_bytes;
  std::vector<GroupRule> rules;  // by group
  uint64_t state_bytes = 0;      // recurrent state of a sequence; 0: all layers have K and V
  uint32_t n_states = 0;         // number of sequences that can have a state at once
  // Bytes of one open page of a sequence in all groups (has_open_pages()); 0: there are none. With
  // open pages, a prefix can be resumed at the end of a page, or inside a page whose open page was
  // kept.
  uint64_t open_page_bytes = 0;
  uint32_t n_open_slots = 0;  // number of sequences that can have open pages at once
  // Part of a group's pages that describes the newest token in a page, and is zero if that is
  // unknown.
  struct NewestToken {
    uint32_t group = 0;
    uint64_t offset = 0;
    uint64_t n_bytes = 0;
  };
  std::optional<NewestToken> newest_token = {};

  uint32_t n_groups() const { return static_cast<uint32_t>(rules.size()); }
  bool has_state() const { return state_bytes > 0; }
  uint32_t n_state_pages() const { return n_pages_of(state_bytes); }
  // Bytes of a state, rounded up to whole pages.
  uint64_t state_slot_bytes() const { return uint64_t{n_state_pages()} * page_bytes; }

  bool has_open_pages() const { return open_page_bytes > 0; }

  // A snapshot is what a sequence needs in addition to pages in order to resume a prefix: its
  // recurrent state or its open page. Snapshots are stored in pages of an additional group.
  bool has_snapshots() const { return snapshot_bytes() > 0; }
  uint64_t snapshot_bytes() const { return has_state() ? state_bytes : open_page_bytes; }
  uint32_t n_snapshot_pages() const { return n_pages_of(snapshot_bytes()); }

  // Bytes of a sequence's slot, which holds the open pages of two neighboring pages
  // (open_page_offset()): drafts beyond a page's end may be rejected.
  uint64_t open_slot_bytes() const { return 2 * open_page_bytes; }
  // Bytes that a running sequence takes in addition to its pages.
  uint64_t slot_bytes() const { return state_slot_bytes() + open_slot_bytes(); }

 private:
  uint32_t n_pages_of(uint64_t n_bytes) const {
    return static_cast<uint32_t>((n_bytes + page_bytes - 1) / page_bytes);
  }
};

// Returns the number of pages that a sequence of n_tokens needs at once in all groups
// (GroupRule::pages_at_once).
inline uint64_t pages_at_once(const KvLayout& layout, uint64_t n_tokens) {
  uint64_t n = 0;
  for (const GroupRule& rule : layout.rules) n += rule.pages_at_once(n_tokens);
  return n;
}

// Returns the number of tokens of the longest sequence that n_pages hold, at most UINT32_MAX.
inline uint64_t tokens_held(const KvLayout& layout, uint64_t n_pages) {
  uint64_t low = 0, high = UINT32_MAX / kPageTokens;  // in pages; low fits
  while (low < high) {
    const uint64_t middle = (low + high + 1) / 2;
    if (pages_at_once(layout, middle * kPageTokens) <= n_pages) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kPageTokens;
}

}  // namespace kvik
