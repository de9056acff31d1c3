#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/seams.h"
#include "text/hf/normalizer.h"
#include "text/hf/pre_tokenizer_step.h"
#include "text/hf/token_spelling.h"
#include "text/hf/word_model.h"
#include "text/token_trie.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik::hf {

// A tokenizer put together from the parts of a tokenizer.json.
class JsonTokenizer final : public VocabularyTokenizer {
 public:
  struct Parts {
    std::unique_ptr<Normalizer> normalizer;           // may be null
    std::unique_ptr<PreTokenizerStep> pre_tokenizer;  // may be null
    std::unique_ptr<WordModel> model;
    TokenSpelling spelling;
    std::vector<TokenId> added_when_normalised;  // user-defined, looked for behind the normalizer
    std::string model_type;
  };

  JsonTokenizer(Vocabulary vocabulary, Parts parts);

  bool strips_leading_blank() const override { return parts_.spelling.strips_leading_blank(); }
  std::string describe() const override;

 private:
  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;
  void encode_normalised(std::string_view text, After after, std::vector<TokenId>& ids) const;
  void cut_at_seams(Words& words) const;
  std::string decode(std::string_view token_text) const override;

  const Parts parts_;
  TokenTrie added_;
  std::optional<Seams> seams_;  // where no pre-tokenizer cuts
};

}  // namespace kvik::hf
