#include "constrain/vocabulary/token_tree.h"

#include <algorithm>
#include <string_view>

namespace kvik::constrain {

TokenTree TokenTree::make(std::vector<TokenId> ids, const std::vector<std::string>& texts) {
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const int order = texts[a].compare(texts[b]);
    return order != 0 ? order < 0 : a < b;
  });
  TokenTree tree;
  std::vector<uint32_t> path;  // the nodes of the text before
  std::string_view before;
  const auto shorten_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      tree.nodes[path.back()].end = static_cast<uint32_t>(tree.nodes.size());
    }
  };
  for (const TokenId id : ids) {
    const std::string_view text = texts[id];
    const auto [differs, its] = std::ranges::mismatch(before, text);
    shorten_to(static_cast<size_t>(differs - before.begin()));
    for (size_t depth = path.size(); depth < text.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(tree.nodes.size()));
      tree.nodes.push_back(
          {0, static_cast<uint32_t>(tree.tokens.size()), 0, static_cast<uint8_t>(text[depth])});
    }
    ++tree.nodes[path.back()].n_tokens;
    tree.tokens.push_back(id);
    before = text;
  }
  shorten_to(0);
  return tree;
}

}  // namespace kvik::constrain
