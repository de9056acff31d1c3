#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "base/token_id.h"
#include "text/text_index.h"
#include "text/tokenizer.h"

namespace kvik {

// The defaults for special tokens that a file does not name.
struct VocabularyDefaults {
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::optional<TokenId> unknown;
  bool adds_bos;
  bool adds_eos = false;
  std::string_view bos_key = "tokenizer.ggml.bos_token_id";
  std::string_view eos_key = "tokenizer.ggml.eos_token_id";
};

// The texts of the tokens. All non-empty texts are distinct.
struct TokenTexts {
  std::vector<std::string> texts;  // by id; empty if the id has no text
  TextIndex index;                 // index of `texts`

  // Returns the token with this text; std::nullopt if there is none.
  std::optional<TokenId> find(std::string_view text) const { return index.find(texts, text); }

  // Returns the ids of the 256 byte tokens ("<0x0A>"). If some are missing, the error is the text
  // of the first one.
  using ByteTokens = std::array<TokenId, 256>;
  std::expected<ByteTokens, std::string> find_byte_tokens() const;
};

// The checked contents of tokenizer.ggml.*. Every id is less than n_vocab(). Immutable after
// reading.
struct Vocabulary : TokenTexts {  // texts: [n_vocab]
  std::vector<TokenKind> kinds;   // [n_vocab]
  std::vector<float> scores;      // [n_vocab]; zeros if the file has none
  std::optional<TokenId> bos, eos, unknown;
  bool adds_bos = false;
  bool adds_eos = false;
  // Special tokens that remove the whitespace after them or before them, and special tokens that
  // are recognized only as whole words. There are few of them.
  std::unordered_set<TokenId> strips_after, strips_before, whole_words;
  // user-defined tokens that SpecialTokens ignores, because the tokenizer finds them in the
  // normalized text
  std::unordered_set<TokenId> found_after_normalization;
  std::vector<TokenId> end_tokens;
  std::string chat_template;  // source of the template; empty if there is none

  uint32_t n_vocab() const { return static_cast<uint32_t>(texts.size()); }

  // is_plain() returns whether the token is normal or user-defined, so that plain text may become
  // it. is_of_text() includes unused tokens, which are recognized in a text as well.
  bool is_plain(TokenId id) const {
    return kinds[id] == TokenKind::kNormal || kinds[id] == TokenKind::kUserDefined;
  }
  bool is_of_text(TokenId id) const { return is_plain(id) || kinds[id] == TokenKind::kUnused; }

  // Returns the plain token with this text; std::nullopt if there is none.
  std::optional<TokenId> find_plain(std::string_view text) const;
};

// Reads the vocabulary of a GGUF file. Error: kCorrupt with the key.
Result<Vocabulary> read_vocabulary(const Metadata& metadata, const VocabularyDefaults& defaults);

// Returns the tokens that end an answer: those named in the file, then the control tokens with a
// name that chat formats use to end a turn, because files often name only one of them. Without
// duplicates.
std::vector<TokenId> find_end_tokens(const Vocabulary& vocabulary,
                                     std::initializer_list<std::optional<TokenId>> named);

// Convert a byte to the text of its token "<0x0A>" and back.
std::string byte_token(uint8_t byte);
std::optional<uint8_t> parse_byte_token(std::string_view text);

// Returns "50,257" for 50257.
std::string group_digits(uint64_t number);

}  // namespace kvik
