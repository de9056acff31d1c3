#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_id.h"
#include "text/hf/tokenizer_object.h"
#include "text/vocabulary.h"

namespace kvik::hf {

// "model" of a tokenizer.json: converts words to ids. Immutable; thread-safe.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Appends the ids of the non-empty `word`.
  virtual void encode(std::string_view word, std::vector<TokenId>& ids) const = 0;

  const TokenTexts& vocabulary() const { return vocabulary_; }
  std::optional<TokenId> unknown() const { return unknown_; }
  bool has_byte_tokens() const { return byte_tokens_.has_value(); }

 protected:
  // Uses byte tokens if the file enables them ("byte_fallback") and has all of them.
  Result<void> read_byte_tokens(const JsonObject& model);
  void append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;

  TokenTexts vocabulary_;
  std::optional<TokenId> unknown_;
  std::optional<TokenTexts::ByteTokens> byte_tokens_;
};

// Reads a model. Errors: kUnsupported for an unknown type; kCorrupt for merges of unknown tokens,
// two texts with one id, or ids out of range.
Result<std::unique_ptr<WordModel>> read_word_model(const JsonObject& model);

// An entry of "merges": "left right" or ["left", "right"]. The views point into the file.
struct Merge {
  std::string_view left, right;
};
Result<std::vector<Merge>> read_merges(const JsonObject& model);

// Read one type of model each.
Result<std::unique_ptr<WordModel>> read_bpe(const JsonObject& model);
Result<std::unique_ptr<WordModel>> read_unigram(const JsonObject& model);
Result<std::unique_ptr<WordModel>> read_word_piece(const JsonObject& model);

// Reads {"text": id, …} under "vocab".
Result<TokenTexts> read_vocabulary_object(const JsonObject& model);

// Returns the id of the token that `key` names; std::nullopt if the key is absent.
Result<std::optional<TokenId>> find_named(const JsonObject& model, std::string_view key,
                                          const TokenTexts& vocabulary);

}  // namespace kvik::hf
