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

// Words into ids: "model" of a tokenizer.json. Immutable: any thread.
class WordModel {
 public:
  virtual ~WordModel() = default;

  // Appends the ids of `word`, which is not empty.
  virtual void encode(std::string_view word, std::vector<TokenId>& ids) const = 0;

  const TokenTexts& vocabulary() const { return vocabulary_; }
  std::optional<TokenId> unknown() const { return unknown_; }
  bool has_byte_tokens() const { return byte_tokens_.has_value(); }

 protected:
  // Takes the byte tokens where the file asks for them ("byte_fallback") and none is missing.
  Result<void> read_byte_tokens(const JsonObject& model);
  void append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;

  TokenTexts vocabulary_;
  std::optional<TokenId> unknown_;
  std::optional<TokenTexts::ByteTokens> byte_tokens_;
};

// Errors: kUnsupported for another type, kCorrupt: merges of what is no token, two texts of one id,
// an id out of bounds (THREATS 25).
Result<std::unique_ptr<WordModel>> read_word_model(const JsonObject& model);

// A line of "merges": "left right", or ["left", "right"]. They point into the file.
struct Merge {
  std::string_view left, right;
};
Result<std::vector<Merge>> read_merges(const JsonObject& model);

// One per type.
Result<std::unique_ptr<WordModel>> read_bpe(const JsonObject& model);
Result<std::unique_ptr<WordModel>> read_unigram(const JsonObject& model);
Result<std::unique_ptr<WordModel>> read_word_piece(const JsonObject& model);

// {"text": id, …} under "vocab".
Result<TokenTexts> read_vocabulary_object(const JsonObject& model);

// The id of the token that `key` names; nothing where it is absent.
Result<std::optional<TokenId>> find_named(const JsonObject& model, std::string_view key,
                                          const TokenTexts& vocabulary);

}  // namespace kvik::hf
