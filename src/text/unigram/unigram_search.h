#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/token_trie.h"

namespace kvik {

// Finds the split of a text into tokens with the highest sum of scores (Viterbi). Characters
// without a token become unknown tokens. Immutable; thread-safe.
class UnigramSearch {
 public:
  struct Unknown {
    TokenId id;
    double score;
  };
  // `scores`: by id; 0 for user-defined tokens, which always win.
  UnigramSearch(std::vector<TokenTrie::Entry> tokens, std::vector<double> scores, Unknown unknown)
      : tokens_(std::move(tokens)), scores_(std::move(scores)), unknown_(unknown) {}

  // The best split of the text up to a position: its score, its last token, and the beginning of
  // that token.
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    TokenId id = 0;
    uint32_t begin = 0;
  };

  // A token of the text and its beginning.
  struct Token {
    TokenId id;
    uint32_t begin;
  };

  // Stores the tokens of `text` in `tokens`. The text is shorter than 4 GiB; `best` is scratch
  // memory.
  void cut(std::string_view text, std::vector<Best>& best, std::vector<Token>& tokens) const;

 private:
  TokenTrie tokens_;
  std::vector<double> scores_;
  Unknown unknown_;
};

}  // namespace kvik
