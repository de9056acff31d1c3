#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/seams.h"
#include "text/hf/json_file.h"
#include "text/token_trie.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik::hf {

// A tokenizer put together from the parts of a tokenizer.json.
class JsonTokenizer final : public VocabularyTokenizer {
 public:
  JsonTokenizer(Vocabulary vocabulary, JsonParts parts, std::string model_type);

  bool strips_leading_blank() const override { return parts_.spelling.strips_leading_blank(); }
  std::string describe() const override;

 private:
  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override;
  void encode_normalised(std::string_view text, After after, std::vector<TokenId>& ids) const;
  void cut_at_seams(Words& words) const;
  std::string decode(std::string_view token_text) const override;

  const JsonParts parts_;
  const std::string model_type_;
  TokenTrie added_;
  std::optional<Seams> seams_;  // where no pre-tokenizer cuts
};

}  // namespace kvik::hf
