#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/token_id.h"
#include "text/tokenizer.h"

namespace kvik {

struct Vocabulary;

// A set of texts, asked for the longest one at a place of another text.
class TokenTrie {
 public:
  struct Match {
    TokenId id;
    size_t n_bytes;
  };

  TokenTrie() : nodes_(1) {}
  void insert(std::string_view text, TokenId id);
  std::optional<Match> longest_at(std::string_view text, size_t at) const;

  // Calls `take` with all of them, shortest first.
  template <class Take>
  void each_at(std::string_view text, size_t at, const Take& take) const {
    if (!begins_[static_cast<uint8_t>(text[at])]) return;
    uint32_t node = 0;
    for (size_t end = at; end < text.size(); ++end) {
      const auto it = edges_.find(edge(node, text[end]));
      if (it == edges_.end()) return;
      node = it->second;
      if (nodes_[node]) take(Match{*nodes_[node], end + 1 - at});
    }
  }

 private:
  static uint64_t edge(uint32_t node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }

  std::vector<std::optional<TokenId>> nodes_;  // the token that ends there; node 0 is the root
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::array<bool, 256> begins_{};  // most bytes begin no special token: no look-up for them
};

// Cuts a text at the special tokens spelled in it, before anything else is done with it: the
// longest at each place, from left to right. Time is linear in the text, times the length of the
// longest special token. Immutable: any thread.
class SpecialTokens {
 public:
  explicit SpecialTokens(const Vocabulary& vocabulary);

  // A token, or text without any; in the order of the text, nothing empty.
  struct Fragment {
    std::string_view text;
    std::optional<TokenId> id;
  };

  // Which tokens are looked for. User-defined ones are words of the language (runs of blanks, say),
  // found in any text; control and unknown ones belong to who writes the prompt's frame.
  enum class Parse { kUserDefined, kAll };
  std::vector<Fragment> partition(std::string_view text, Parse parse) const;

  // kAll inside the ranges of `trusted`, which ascend, kUserDefined elsewhere.
  std::vector<Fragment> partition(std::string_view text, std::span<const TextRange> trusted) const;

 private:
  template <class Find>
  std::vector<Fragment> cut(std::string_view text, const Find& find) const;

  TokenTrie user_defined_;
  TokenTrie all_;
  std::unordered_set<TokenId> eat_blanks_;
  std::optional<TokenId> eats_blanks_before_;
};

}  // namespace kvik
