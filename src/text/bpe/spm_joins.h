#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/token_joins.h"
#include "text/text_index.h"
#include "text/vocabulary.h"

namespace kvik {

// SentencePiece's BPE as joins of neighbours: two that make a token join, the highest score first.
// Symbols are what takes part in it: tokens, by their ids, and characters that are no token but
// belong to one, numbered from n_vocab up. Immutable: any thread.
class SpmJoins {
 public:
  explicit SpmJoins(const Vocabulary& vocabulary);

  // Of one character, or of a byte that belongs to none: nothing where no token has it.
  std::optional<TokenId> symbol(const Vocabulary& vocabulary, std::string_view character) const;

  // The character that a symbol from n_vocab up stands for.
  std::string_view character(const Vocabulary& vocabulary, TokenId symbol) const {
    return characters_[symbol - vocabulary.n_vocab()];
  }

  const TokenJoins& joins() const { return joins_; }

 private:
  void add_token(const Vocabulary& vocabulary, TokenId id, uint32_t rank);
  TokenId add_symbol(const Vocabulary& vocabulary, std::string_view character);
  std::optional<TokenId> look_up(const Vocabulary& vocabulary, std::string_view character) const;

  TokenJoins joins_;
  std::vector<bool> lengths_;  // by number of bytes: whether any token has it
  std::array<std::optional<TokenId>, 128> ascii_;
  std::vector<std::string> characters_;
  TextIndex index_;  // of `characters_`
};

}  // namespace kvik
