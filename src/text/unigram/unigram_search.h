#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "text/token_trie.h"

namespace kvik {

// Of all ways to cut a text into tokens, the one with the highest sum of scores (Viterbi).
// Characters without a token are unknown ones. Immutable: any thread.
class UnigramSearch {
 public:
  struct Unknown {
    TokenId id;
    double score;
  };
  // `scores`: by id, 0 for tokens that always win.
  UnigramSearch(std::vector<TokenTrie::Entry> tokens, std::vector<double> scores, Unknown unknown)
      : tokens_(std::move(tokens)), scores_(std::move(scores)), unknown_(unknown) {}

  // The best way to cut up to a place: its last token, and where that begins.
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    TokenId id = 0;
    uint32_t begin = 0;
  };

  // A token of the text, and where it begins.
  struct Token {
    TokenId id;
    uint32_t begin;
  };

  // The tokens of `text`, which is shorter than 4 GiB; `best` is scratch memory.
  void cut(std::string_view text, std::vector<Best>& best, std::vector<Token>& tokens) const;

 private:
  TokenTrie tokens_;
  std::vector<double> scores_;
  Unknown unknown_;
};

}  // namespace kvik
