#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "text/bpe/seams.h"
#include "text/bpe/spm_joins.h"
#include "text/bpe/token_joins.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {

// SentencePiece's BPE, tokenizer.ggml.model "llama": blanks become U+2581, and among neighbouring
// characters those join first whose token has the highest score. Characters without a token become
// byte tokens, or the unknown token where the vocabulary lacks those.
class SpmTokenizer final : public VocabularyTokenizer {
 public:
  // Errors as Tokenizer::from_metadata.
  static Result<std::unique_ptr<Tokenizer>> read(const Metadata& metadata);

  bool strips_leading_blank() const override { return adds_blank_; }
  std::string describe() const override;

 private:
  struct Scratch {
    std::vector<TokenId> symbols;
    TokenJoins::Scratch joins;
  };

  SpmTokenizer(Vocabulary vocabulary, bool adds_blank);

  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const;
  void encode_as_bytes(std::string_view character, std::vector<TokenId>& ids) const;

  const bool adds_blank_;  // before a text's first word, and before text after a special token
  const SpmJoins joins_;
  const Seams seams_;
  std::optional<TokenTexts::ByteTokens> byte_tokens_;  // all or none: half would be noise
};

}  // namespace kvik
