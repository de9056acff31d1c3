#include "constrain/vocabulary/token_tree.h"

#include <algorithm>
#include <string_view>

namespace kvik::constrain {

TokenTree TokenTree::make(std::vector<TokenId> ids, const std::vector<std::string>& texts) {
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const int order = texts[a].compare(texts[b]);
    return order != 0 ? order < 0 : a < b;
  });
  struct Open {
    uint32_t node;
    ByteSet below;
  };
  TokenTree tree;
  std::vector<Open> path;  // nodes of the previous text
  std::string_view before;
  const auto shorten_to = [&](size_t depth) {
    while (path.size() > depth) {
      const Open last = path.back();
      path.pop_back();
      Node& node = tree.nodes[last.node];
      node.end = static_cast<uint32_t>(tree.nodes.size());
      if (tree.tokens.size() - node.first_token > kFewTokens) {
        node.byte_set = static_cast<uint32_t>(tree.byte_sets.size());
        tree.byte_sets.push_back(last.below);
      }
      if (path.empty()) return;
      ByteSet& above = path.back().below;
      for (size_t w = 0; w < above.size(); ++w) above[w] |= last.below[w];
      above[node.byte / 64] |= uint64_t{1} << node.byte % 64;
    }
  };
  for (const TokenId id : ids) {
    const std::string_view text = texts[id];
    const auto [differs, its] = std::ranges::mismatch(before, text);
    shorten_to(static_cast<size_t>(differs - before.begin()));
    for (size_t depth = path.size(); depth < text.size(); ++depth) {
      path.push_back({static_cast<uint32_t>(tree.nodes.size()), {}});
      tree.nodes.push_back({0, static_cast<uint32_t>(tree.tokens.size()), kNoSet, 0,
                            static_cast<uint8_t>(text[depth])});
    }
    ++tree.nodes[path.back().node].n_tokens;
    tree.tokens.push_back(id);
    before = text;
  }
  shorten_to(0);
  return tree;
}

}  // namespace kvik::constrain
