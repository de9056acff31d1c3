#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensor/kv_type.h"
#include "tensor/page_count.h"

namespace kvik {

// Determines which pages of a sequence a layer group needs. All layers of a group have the same
// attention span: all tokens, or a sliding window. Allocation, lookup and release of pages depend
// on this class alone and know nothing else about attention. A value.
class GroupRule {
 public:
  GroupRule() = default;  // full attention
  // Returns the rule of a sliding window of n_tokens, the newest token included; 0: full attention.
  static GroupRule of_window(uint32_t n_tokens) {
    GroupRule rule;
    if (n_tokens > 0) rule.reach_ = n_tokens;
    return rule;
  }

  // Returns the first page that attention of the token after the first n_tokens, or of a later one,
  // reads. Earlier pages may be released.
  uint64_t first_page_needed(uint64_t n_tokens) const {
    return n_tokens < reach_ ? 0 : (n_tokens + 1 - reach_) / kPageTokens;
  }

  // Returns the maximum number of pages that a sequence of n_tokens needs at once if it is computed
  // token by token. A step of several tokens needs the pages of these tokens in addition.
  uint64_t pages_at_once(uint64_t n_tokens) const {
    return std::min(pages_for(n_tokens), pages_for(reach_) + 1);
  }

  // Returns whether a page is useful only if all pages before it are cached.
  bool needs_all() const { return reach_ == kEverything; }

  // Returns whether a sequence can resume after n_tokens, where has(i) says whether its whole page
  // i is cached. With full attention the last page is sufficient, because a page is cached only
  // together with all pages before it.
  template <class Has>
  bool can_resume(uint64_t n_tokens, const Has& has) const {
    const uint64_t n_whole = n_tokens / kPageTokens;
    uint64_t i = needs_all() && n_whole > 0 ? n_whole - 1 : first_page_needed(n_tokens);
    while (i < n_whole && has(i)) ++i;
    return i >= n_whole;
  }

 private:
  static constexpr uint64_t kEverything = uint64_t{1} << 62;  // longer than any sequence
  uint64_t reach_ = kEverything;
};

// Returns the rules of groups with these windows, in tokens; 0: full attention.
inline std::vector<GroupRule> rules_of(const std::vector<uint32_t>& windows) {
  std::vector<GroupRule> rules;
  for (const uint32_t window : windows) rules.push_back(GroupRule::of_window(window));
  return rules;
}

}  // namespace kvik
