#include "kv/index/prefix_node.h"

#include <algorithm>
#include <utility>

namespace kvik {

std::vector<PrefixNode*>::const_iterator place_of_child(const PrefixNode& parent, SharingMark known,
                                                        std::span<const TokenId> tokens) {
  return std::ranges::lower_bound(
      parent.children, std::pair(known, tokens),
      [](const auto& a, const auto& b) {
        if (a.first != b.first) return a.first < b.first;
        return std::ranges::lexicographical_compare(a.second, b.second);
      },
      [](const PrefixNode* child) {
        return std::pair(child->known, std::span<const TokenId>(child->tokens));
      });
}

// In a sorted list, the entries that share most with a given one are next to its position.
ChildrenByMatch::Range ChildrenByMatch::range_of(const PrefixNode& parent, SharingMark known,
                                                 std::span<const TokenId> tokens) {
  const auto& all = parent.children;
  const auto marked = std::ranges::equal_range(
      all, known, {}, [](const PrefixNode* child) { return child->known; });
  const auto at = place_of_child(parent, known, tokens);
  const auto n_below = static_cast<size_t>(at - marked.begin());
  return {.children = {marked.begin(), marked.end()}, .below = n_below, .above = n_below};
}

ChildrenByMatch::ChildrenByMatch(const PrefixNode& parent, SharingMark reader,
                                 std::span<const TokenId> tokens)
    : tokens_(tokens) {
  ranges_[0] = range_of(parent, SharingMark::kAll, tokens);
  if (reader != SharingMark::kAll && reader != SharingMark::kNoTenant) {
    ranges_[1] = range_of(parent, reader, tokens);
  }
}

ChildrenByMatch::Child ChildrenByMatch::next() {
  Child best;
  size_t* edge = nullptr;  // the edge that moves past the best child
  size_t moved = 0;
  for (Range& range : ranges_) {
    const auto consider = [&](size_t index, size_t& at_edge, size_t after) {
      const Child child = at(range, index);
      if (best.node && child.n_shared <= best.n_shared) return;
      best = child;
      edge = &at_edge;
      moved = after;
    };
    const auto [below, above] = std::pair(range.below, range.above);
    if (above < range.children.size()) consider(above, range.above, above + 1);
    if (below > 0) consider(below - 1, range.below, below - 1);
  }
  if (edge) *edge = moved;
  return best;
}

}  // namespace kvik
