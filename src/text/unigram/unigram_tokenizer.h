#pragma once

#include <memory>
#include <string>

#include "text/bpe/seams.h"
#include "text/token_trie.h"
#include "text/unigram/charsmap.h"
#include "text/unigram/unigram_search.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {

// SentencePiece's Unigram, tokenizer.ggml.model "t5": text is normalised, blanks become U+2581, and
// of all ways to cut it the one with the highest sum of scores is taken (Viterbi). Characters
// without a token become the unknown token, neighbours together one.
class UnigramTokenizer final : public VocabularyTokenizer {
 public:
  // Errors as Tokenizer::from_metadata.
  static Result<std::unique_ptr<Tokenizer>> read(const Metadata& metadata);

  bool strips_leading_blank() const override { return adds_blank_; }
  std::string describe() const override;

 private:
  enum class Blanks { kKept, kMerged };

  UnigramTokenizer(Vocabulary vocabulary, Charsmap charsmap, bool adds_blank, Blanks blanks);

  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;
  std::string normalise(std::string_view text) const;

  const Charsmap charsmap_;
  const bool adds_blank_;  // before a text's first word, and before text after a special token
  const Blanks blanks_;    // runs of them
  TokenTrie user_defined_;
  const UnigramSearch search_;
  const Seams seams_;
};

}  // namespace kvik
