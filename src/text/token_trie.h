#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/token_id.h"

namespace kvik {

// A set of token texts, stored as a trie, that finds its members at a position of another text.
// Immutable; thread-safe.
class TokenTrie {
 public:
  struct Entry {
    std::string_view text;  // only read by the constructor
    TokenId id;
  };
  struct Match {
    TokenId id;
    size_t n_bytes;
  };

  // Ignores empty texts. If texts are equal, the first entry is used.
  explicit TokenTrie(std::vector<Entry> entries = {});

  // Returns whether a text of the set begins with `byte`.
  bool any_begins_with(char byte) const { return roots_[static_cast<uint8_t>(byte)] != kNone; }

  // Returns the longest member at this position.
  std::optional<Match> longest_at(std::string_view text, size_t at) const;

  // Calls `take` for all members at this position, shortest first.
  template <class Take>
  void each_at(std::string_view text, size_t at, const Take& take) const {
    uint32_t node = roots_[static_cast<uint8_t>(text[at])];
    for (size_t end = at + 1; node != kNone; node = child(node, text[end++])) {
      if (nodes_[node].id) take(Match{*nodes_[node].id, end - at});
      if (end == text.size()) return;
    }
  }

 private:
  // The children of a node are adjacent and ordered by their labels.
  struct Node {
    uint32_t first_child = 0;
    uint16_t n_children = 0;
    std::optional<TokenId> id;  // token that ends at this node
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  uint32_t child(uint32_t node, char label) const {
    const auto [first, n, id] = nodes_[node];
    const void* found = n == 0 ? nullptr : std::memchr(&labels_[first], label, n);
    if (!found) return kNone;
    return static_cast<uint32_t>(static_cast<const char*>(found) - labels_.data());
  }

  std::array<uint32_t, 256> roots_;  // nodes by first byte; kNone for most bytes
  std::vector<Node> nodes_;
  std::vector<char> labels_;  // by node: label of the edge to it
};

}  // namespace kvik
