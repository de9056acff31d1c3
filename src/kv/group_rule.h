#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/kv_type.h"

namespace kvik {

// Pages that n_tokens take in one group.
inline uint64_t pages_for(uint64_t n_tokens) { return (n_tokens + kPageTokens - 1) / kPageTokens; }

// Which pages of its own a layer group needs of a sequence. The layers of a group all look at the
// same tokens: at all, or at a window of the last ones. Whoever hands pages out, finds, keeps or
// gives them back asks here and knows nothing else of attention. A value.
class GroupRule {
 public:
  GroupRule() = default;  // of layers that look at all tokens
  // Of layers that look at so many tokens, the newest included; 0: at all.
  static GroupRule of_window(uint32_t n_tokens) {
    GroupRule rule;
    if (n_tokens > 0) rule.reach_ = n_tokens;
    return rule;
  }

  // The first page that the token behind n_tokens, or a later one, looks at. Those before it may be
  // given back.
  uint64_t first_page_needed(uint64_t n_tokens) const {
    return n_tokens < reach_ ? 0 : (n_tokens + 1 - reach_) / kPageTokens;
  }

  // The most pages that a sequence of n_tokens needs at once where it is computed token by token; a
  // step of more tokens takes theirs in addition.
  uint64_t pages_at_once(uint64_t n_tokens) const {
    return std::min(pages_for(n_tokens), pages_for(reach_) + 1);
  }

  // Whether a page serves only where all pages before it do.
  bool needs_all() const { return reach_ == kEverything; }

  // Whether a sequence can go on behind n_tokens, of whose whole pages those are there that
  // `has(index)` says. Where every page needs all before it, the last one tells.
  template <class Has>
  bool can_resume(uint64_t n_tokens, const Has& has) const {
    const uint64_t n_whole = n_tokens / kPageTokens;
    uint64_t i = needs_all() && n_whole > 0 ? n_whole - 1 : first_page_needed(n_tokens);
    while (i < n_whole && has(i)) ++i;
    return i >= n_whole;
  }

 private:
  static constexpr uint64_t kEverything = uint64_t{1} << 62;  // no sequence is so long
  uint64_t reach_ = kEverything;
};

// Of groups whose layers look at so many tokens each; 0: at all.
inline std::vector<GroupRule> rules_of(const std::vector<uint32_t>& windows) {
  std::vector<GroupRule> rules;
  for (const uint32_t window : windows) rules.push_back(GroupRule::of_window(window));
  return rules;
}

}  // namespace kvik
