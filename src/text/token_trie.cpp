#include "text/token_trie.h"

#include <algorithm>

namespace kvik {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  roots_.fill(kNone);
  std::erase_if(entries, [](const Entry& entry) { return entry.text.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.text < b.text; });
  // The entries below a node. All of them have at least `depth` bytes.
  struct Range {
    size_t begin;
    size_t end;
    size_t depth;
  };
  std::vector<Range> ranges;  // by node, breadth-first, so that siblings are adjacent
  const auto add_children = [&](Range range) {
    const size_t first = nodes_.size();
    for (size_t i = range.begin; i < range.end;) {
      const char label = entries[i].text[range.depth];
      size_t end = i;
      while (end < range.end && entries[end].text[range.depth] == label) ++end;
      ranges.push_back({i, end, range.depth + 1});
      nodes_.emplace_back();
      labels_.push_back(label);
      i = end;
    }
    return first;
  };
  add_children({0, entries.size(), 0});
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    Range range = ranges[node];
    if (range.depth == 1) roots_[static_cast<uint8_t>(labels_[node])] = node;
    while (range.begin < range.end && entries[range.begin].text.size() == range.depth) {
      if (!nodes_[node].id) nodes_[node].id = entries[range.begin].id;
      ++range.begin;
    }
    const size_t first = add_children(range);
    nodes_[node].first_child = static_cast<uint32_t>(first);
    nodes_[node].n_children = static_cast<uint16_t>(nodes_.size() - first);
  }
}

std::optional<TokenTrie::Match> TokenTrie::longest_at(std::string_view text, size_t at) const {
  std::optional<Match> longest;
  each_at(text, at, [&](const Match& match) { longest = match; });
  return longest;
}

}  // namespace kvik
