#include "kv/prefix_node.h"

#include <algorithm>

namespace kvik {

// Among sorted lists those that share most with a given one stand next to where it would stand.
ChildrenByMatch::ChildrenByMatch(const PrefixNode& parent, std::span<const TokenId> tokens)
    : children_(parent.children), tokens_(tokens) {
  const auto at = std::ranges::lower_bound(
      children_, tokens_,
      [](std::span<const TokenId> a, std::span<const TokenId> b) {
        return std::ranges::lexicographical_compare(a, b);
      },
      [](const PrefixNode* child) { return std::span<const TokenId>(child->tokens); });
  below_ = above_ = static_cast<size_t>(at - children_.begin());
}

ChildrenByMatch::Child ChildrenByMatch::next() {
  const bool has_below = below_ > 0;
  const bool has_above = above_ < children_.size();
  if (!has_below && !has_above) return {};
  const uint32_t n_below = has_below ? shared_with(below_ - 1) : 0;
  const uint32_t n_above = has_above ? shared_with(above_) : 0;
  if (has_below && (!has_above || n_below > n_above)) return {children_[--below_], n_below};
  return {children_[above_++], n_above};
}

}  // namespace kvik
