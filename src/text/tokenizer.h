#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metadata.h"
#include "base/result.h"
#include "base/token_id.h"
#include "text/tokenize_options.h"

namespace kvik {

// A range of a text in bytes.
struct TextRange {
  size_t begin;
  size_t end;
};

// The kinds of tokens, as in llama.h (llama_token_type).
enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Converts text to ids and back for one vocabulary. tokenize() takes O(n log n) time for any text
// of n bytes and accepts any bytes: invalid UTF-8 is tokenized byte by byte. Immutable after
// loading; thread-safe.
class Tokenizer {
 public:
  // Reads tokenizer.ggml.*: models "gpt2" (byte-level BPE), "gemma4" (BPE of characters), "llama"
  // (SentencePiece BPE with byte fallback), "t5" (SentencePiece Unigram) and "bert" (WordPiece); or
  // the tokenizer.json of a Hugging Face folder, which is in tokenizer.huggingface.json.
  //
  // Errors: kUnsupported for another model or pre-tokenizer; kCorrupt if arrays disagree or a merge
  // or special id is outside the vocabulary.
  static Result<std::unique_ptr<Tokenizer>> from_metadata(const Metadata& metadata);

  virtual ~Tokenizer() = default;

  // Returns the ids of a text.
  virtual std::vector<TokenId> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const = 0;

  // Returns the ids of a prompt that a chat template rendered. Special tokens are recognized only
  // within the `trusted` ranges, which are ascending and do not touch; elsewhere they are plain
  // text. Adds neither BOS nor EOS.
  virtual std::vector<TokenId> tokenize_chat(std::string_view text,
                                             std::span<const TextRange> trusted) const = 0;

  // Returns the bytes of a token. Those of a control token are empty unless `special` is kShow. A
  // token may contain part of a character: see Detokenizer.
  enum class Special { kHide, kShow };
  virtual std::string piece(TokenId id, Special special) const = 0;

  // Returns whether detokenizing must remove a leading space from the first word of a text, because
  // tokenizing added it (SentencePiece's add_dummy_prefix).
  virtual bool strips_leading_space() const = 0;

  virtual uint32_t n_vocab() const = 0;
  virtual TokenKind kind(TokenId id) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool adds_bos() const = 0;
  // Returns the tokens that end an answer: see find_end_tokens().
  virtual std::span<const TokenId> end_tokens() const = 0;
  // Returns the source of the model's chat template; empty if it has none.
  virtual std::string_view chat_template() const = 0;
  // Returns a summary for `kvik show`, such as "gpt2 (pre-tokenizer gpt-2), 50,257 tokens, 50,000
  // merges".
  virtual std::string describe() const = 0;

  // Returns the text that Detokenizer gives for all ids.
  std::string detokenize(std::span<const TokenId> ids, Special special) const;
};

}  // namespace kvik
