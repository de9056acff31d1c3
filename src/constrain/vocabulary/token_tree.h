#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/token_id.h"

namespace kvik::constrain {

// A byte trie of texts with their token ids. Immutable; thread-safe.
struct TokenTree {
  struct Node {
    uint32_t end;          // one past the last node of the subtree
    uint32_t first_token;  // index in `tokens` of the first token of the subtree
    uint32_t byte_set;  // index in byte_sets; kNoSet if the subtree has at most kFewTokens tokens
    uint16_t n_tokens;  // number of tokens that end at this node
    uint8_t byte;
  };
  static constexpr uint32_t kNoSet = ~uint32_t{0};
  using ByteSet = std::array<uint64_t, 4>;
  // In depth-first order: each node is followed by the subtrees of its children, which are
  // ascending by byte.
  std::vector<Node> nodes;
  std::vector<TokenId> tokens;
  std::vector<ByteSet> byte_sets;  // bytes of all nodes below a node

  static constexpr size_t kFewTokens = 8;

  // Returns the trie of the tokens `ids`. Their texts must not be empty.
  static TokenTree make(std::vector<TokenId> ids, const std::vector<std::string>& texts);

  std::span<const TokenId> tokens_below(uint32_t node) const {
    const uint32_t end = nodes[node].end;
    const size_t first = nodes[node].first_token;
    const size_t last = end < nodes.size() ? nodes[end].first_token : tokens.size();
    return std::span(tokens).subspan(first, last - first);
  }
};

}  // namespace kvik::constrain
