#pragma once

#include <memory>
#include <string>

#include "text/vocabulary_tokenizer.h"
#include "text/word_piece/word_piece_search.h"

namespace kvik {

// BERT's WordPiece, tokenizer.ggml.model "bert", uncased: words in small letters without accents,
// each cut into the longest tokens from left to right; a word that can not be cut is unknown.
class WordPieceTokenizer final : public VocabularyTokenizer {
 public:
  // Errors as Tokenizer::from_metadata.
  static Result<std::unique_ptr<Tokenizer>> read(const Metadata& metadata);

  bool strips_leading_blank() const override { return true; }
  std::string describe() const override;

 private:
  explicit WordPieceTokenizer(Vocabulary vocabulary);

  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;

  WordPieceSearch search_;
};

}  // namespace kvik
