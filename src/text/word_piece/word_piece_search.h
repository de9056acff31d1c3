#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token_id.h"
#include "text/token_trie.h"

namespace kvik {

// WordPiece: splits a word into the longest tokens from left to right. A word that cannot be split
// this way, or is too long, is unknown as a whole. Immutable; thread-safe.
class WordPieceSearch {
 public:
  using Entries = std::vector<TokenTrie::Entry>;
  struct Limits {
    size_t max_chars = 100;  // maximum length of a word: Hugging Face's max_input_chars_per_word
    TokenId unknown = 0;
  };

  WordPieceSearch() = default;
  // `first`: tokens that begin a word; `further`: tokens within a word.
  WordPieceSearch(Entries first, Entries further, const Limits& limits)
      : first_(std::move(first)), further_(std::move(further)), limits_(limits) {}

  // Appends the ids of the non-empty `word`.
  void cut(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  TokenTrie first_;
  TokenTrie further_;
  Limits limits_;
};

}  // namespace kvik
