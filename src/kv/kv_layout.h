#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kv/group_rule.h"
#include "tensor/kv_type.h"

namespace kvik {

// How the K and V of a model lie in pages. A layer group is some of the layers that remember alike;
// kPageTokens tokens of it fill one page, and the pages of all groups are of one size, so that any
// free page serves any group and the budget needs no division among them.
struct KvLayout {
  explicit KvLayout(size_t bytes, std::vector<GroupRule> rules_of_groups = {GroupRule()})
      : page_bytes(bytes), rules(std::move(rules_of_groups)) {}

  size_t page_bytes;
  std::vector<GroupRule> rules;  // of each group
  uint64_t state_bytes = 0;      // of a sequence, beside its pages; 0: all layers have K and V
  uint32_t n_states = 0;         // sequences that can have one at once
  // Bytes of one open page of a sequence in all groups (has_open_pages()); 0: sequences have none.
  // If they do, a prefix ends at whole pages, or inside a page whose open page was kept.
  uint64_t open_page_bytes = 0;
  uint32_t n_open_slots = 0;  // sequences that can have open pages at once

  uint32_t n_groups() const { return static_cast<uint32_t>(rules.size()); }
  bool has_state() const { return state_bytes > 0; }
  uint32_t n_state_pages() const { return n_pages_of(state_bytes); }
  // What a state takes, in whole pages.
  uint64_t state_slot_bytes() const { return uint64_t{n_state_pages()} * page_bytes; }

  bool has_open_pages() const { return open_page_bytes > 0; }

  // A snapshot is what a sequence needs besides its pages to continue a prefix: the state or the
  // open page. It is stored in pages of one group more than the layers have.
  bool has_snapshots() const { return snapshot_bytes() > 0; }
  uint64_t snapshot_bytes() const { return has_state() ? state_bytes : open_page_bytes; }
  uint32_t n_snapshot_pages() const { return n_pages_of(snapshot_bytes()); }

  // Bytes of a sequence's slot, which holds the open pages of two neighboring pages
  // (open_page_offset()): drafts beyond a page's end may be rejected.
  uint64_t open_slot_bytes() const { return 2 * open_page_bytes; }
  // Bytes that a running sequence takes besides its pages.
  uint64_t slot_bytes() const { return state_slot_bytes() + open_slot_bytes(); }

 private:
  uint32_t n_pages_of(uint64_t n_bytes) const {
    return static_cast<uint32_t>((n_bytes + page_bytes - 1) / page_bytes);
  }
};

// Pages that a sequence of n_tokens needs at once, in all groups (GroupRule::pages_at_once).
inline uint64_t pages_at_once(const KvLayout& layout, uint64_t n_tokens) {
  uint64_t n = 0;
  for (const GroupRule& rule : layout.rules) n += rule.pages_at_once(n_tokens);
  return n;
}

// The longest sequence that n_pages hold alone, at most UINT32_MAX tokens.
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
