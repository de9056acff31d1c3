#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_merges.h"
#include "text/text_index.h"
#include "text/vocabulary.h"

namespace kvik {

// SentencePiece's BPE expressed as merges of adjacent symbols: two symbols merge if they form a
// token, the token with the highest score first. A symbol is a token, with its id, or a character
// that is part of a token without being one, numbered from n_vocab. Immutable; thread-safe.
class SpmMerges {
 public:
  explicit SpmMerges(const Vocabulary& vocabulary);

  // Returns the symbol of a character or of an invalid byte; std::nullopt if no token contains it.
  std::optional<TokenId> symbol(const Vocabulary& vocabulary, std::string_view character) const;

  // Returns the character of a symbol that is numbered from n_vocab.
  std::string_view character(const Vocabulary& vocabulary, TokenId symbol) const {
    return characters_[symbol - vocabulary.n_vocab()];
  }

  const BpeMerges& joins() const { return joins_; }

 private:
  void add_token(const Vocabulary& vocabulary, TokenId id, uint32_t rank);
  TokenId add_symbol(const Vocabulary& vocabulary, std::string_view character);
  std::optional<TokenId> look_up(const Vocabulary& vocabulary, std::string_view character) const;

  BpeMerges joins_;
  std::vector<bool> lengths_;  // [n]: whether some token has n bytes
  std::array<std::optional<TokenId>, 128> ascii_;
  std::vector<std::string> characters_;
  TextIndex index_;  // index of characters_
};

}  // namespace kvik
