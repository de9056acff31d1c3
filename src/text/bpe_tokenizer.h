#pragma once

#include <array>
#include <memory>
#include <optional>

#include "text/bpe_merges.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {

// Byte-level BPE, tokenizer.ggml.model "gpt2": text is cut into words, each word's bytes become
// tokens, and neighbours join by the merges' ranks. Decoding gives back any bytes, UTF-8 or not,
// where the vocabulary has all 256 of them.
//
// Model "gemma4" is the same over characters: blanks become U+2581, and a character without a token
// becomes byte tokens "<0x0A>".
class BpeTokenizer final : public VocabularyTokenizer {
 public:
  // Errors as Tokenizer::from_metadata.
  static Result<std::unique_ptr<Tokenizer>> read(const Metadata& metadata);

  bool strips_leading_blank() const override { return false; }
  std::string describe() const override;

 private:
  enum class Symbols { kBytes, kCharacters };

  BpeTokenizer(Vocabulary vocabulary, BpeMerges merges, const PreTokenizer& pre_tokenizer,
               Symbols symbols);

  // Error: kCorrupt where a byte has no token and nothing can stand for it.
  Result<void> find_byte_tokens();

  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;
  void encode_words(std::string_view text, std::vector<TokenId>& ids) const;
  void encode_word(std::string_view word, BpeMerges::Scratch& scratch,
                   std::vector<TokenId>& ids) const;
  void append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;
  void append_characters(std::string_view word, std::vector<TokenId>& ids) const;
  std::optional<TokenId> find_byte(uint8_t byte) const;
  std::string decode(std::string_view token_text) const override;

  const BpeMerges merges_;
  const PreTokenizer& pre_tokenizer_;
  const Symbols symbols_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::vector<TokenId> missing_byte_;  // what stands for a byte that has no token
};

}  // namespace kvik
