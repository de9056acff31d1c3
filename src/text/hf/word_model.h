#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "text/hf/fields.h"
#include "text/text_index.h"

namespace kvik::hf {

// "vocab" of a tokenizer.json's model: text → id.
struct ModelVocabulary {
  std::vector<std::string> texts;  // by id; empty where there is none
  TextIndex index;                 // of `texts`

  std::optional<TokenId> find(std::string_view text) const { return index.find(texts, text); }
};

// Words into ids: "model" of a tokenizer.json. Immutable: any thread.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Appends the ids of `word`, which is not empty.
  virtual void encode(std::string_view word, std::vector<TokenId>& ids) const = 0;

  const ModelVocabulary& vocabulary() const { return vocabulary_; }
  std::optional<TokenId> unknown() const { return unknown_; }
  bool has_byte_tokens() const { return has_byte_tokens_; }  // byte_fallback

 protected:
  // The id of "<0x0A>" for each byte; nothing where one is missing or the file does not ask.
  std::optional<std::vector<TokenId>> find_byte_tokens() const;

  ModelVocabulary vocabulary_;
  std::optional<TokenId> unknown_;
  bool has_byte_tokens_ = false;
};

// Errors: kUnsupported for another type, kCorrupt: merges of what is no token, two texts of one id,
// an id out of bounds (THREATS 25).
Result<std::unique_ptr<WordModel>> read_word_model(const Fields& model);

// A line of "merges": "left right", or ["left", "right"]. They point into the file.
struct Merge {
  std::string_view left, right;
};
Result<std::vector<Merge>> read_merges(const Fields& model);

// One per type.
Result<std::unique_ptr<WordModel>> read_bpe(const Fields& model);
Result<std::unique_ptr<WordModel>> read_unigram(const Fields& model);
Result<std::unique_ptr<WordModel>> read_word_piece(const Fields& model);

// {"text": id, …} under "vocab".
Result<ModelVocabulary> read_vocabulary_object(const Fields& model);

// The id of the token that `key` names; nothing where it is absent.
Result<std::optional<TokenId>> find_named(const Fields& model, std::string_view key,
                                          const ModelVocabulary& vocabulary);

}  // namespace kvik::hf
