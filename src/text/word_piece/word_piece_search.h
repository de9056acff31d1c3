#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/token_id.h"
#include "text/token_trie.h"

namespace kvik {

// WordPiece: the longest token first, from left to right; a word that can not be cut so, or that is
// too long, is unknown as a whole. Immutable: any thread.
class WordPieceSearch {
 public:
  using Entries = std::vector<TokenTrie::Entry>;
  struct Limits {
    size_t max_chars = 100;  // of a word: Hugging Face's max_input_chars_per_word
    TokenId unknown = 0;
  };

  WordPieceSearch() = default;
  // Tokens that begin a word, and those that stand further in it.
  WordPieceSearch(Entries first, Entries further, const Limits& limits)
      : first_(std::move(first)), further_(std::move(further)), limits_(limits) {}

  // Appends the ids of `word`, which is not empty.
  void cut(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  TokenTrie first_;
  TokenTrie further_;
  Limits limits_;
};

}  // namespace kvik
