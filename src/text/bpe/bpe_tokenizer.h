#pragma once

#include <array>
#include <memory>
#include <optional>

#include "text/bpe/seams.h"
#include "text/bpe/token_joins.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/text_index.h"
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

  BpeTokenizer(Vocabulary vocabulary, TokenJoins merges, const PreTokenizer& pre_tokenizer,
               Symbols symbols);

  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;
  void encode_word(std::string_view word, TokenJoins::Scratch& scratch,
                   std::vector<TokenId>& ids) const;
  void append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;
  void append_characters(std::string_view word, std::vector<TokenId>& ids) const;
  std::optional<TokenId> find_byte(uint8_t byte) const;
  std::string decode(std::string_view token_text) const override;

  const TokenJoins merges_;
  const PreTokenizer& pre_tokenizer_;
  const Symbols symbols_;
  const Seams seams_;   // of lines, which are long words
  TextIndex by_bytes_;  // of `pieces_`, where whole words go first
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

// tokenizer.ggml.merges: a merge's place in the list is its rank.
// Errors: kCorrupt where the key is missing, a merge is not "left right", or either is no token.
// A merge whose result is no token is left out, as in llama.cpp.
Result<TokenJoins> read_merges(const Metadata& metadata, const Vocabulary& vocabulary);

}  // namespace kvik
