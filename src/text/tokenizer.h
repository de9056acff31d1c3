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

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Converts text to ids and back for one vocabulary. Immutable after loading; thread-safe.
// tokenize() takes linear time, times a logarithm, for any text, and accepts any bytes: invalid
// UTF-8 is tokenized byte by byte.
class Tokenizer {
 public:
  // Reads tokenizer.ggml.*: models "gpt2" (byte-level BPE), "gemma4" (BPE of characters), "llama"
  // (SentencePiece BPE with byte fallback), "t5" (SentencePiece Unigram) and "bert" (WordPiece); or
  // the tokenizer.json of a Hugging Face folder in tokenizer.huggingface.json.
  //
  // Errors: kUnsupported for another model or pre-tokenizer; kCorrupt if arrays disagree or a merge
  // or special id is outside the vocabulary.
  static Result<std::unique_ptr<Tokenizer>> from_metadata(const Metadata& metadata);

  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const = 0;

  // The ids of a prompt rendered by a chat template: special tokens are recognized only within the
  // `trusted` ranges, which ascend and do not touch; elsewhere they are plain text. No BOS or EOS
  // is added.
  virtual std::vector<TokenId> tokenize_chat(std::string_view text,
                                             std::span<const TextRange> trusted) const = 0;

  // The bytes of a token; control tokens are empty unless `special` is kShow. A token may contain
  // part of a character: see Detokenizer.
  enum class Special { kHide, kShow };
  virtual std::string piece(TokenId id, Special special) const = 0;

  // True if the leading space that tokenization adds (SentencePiece's add_dummy_prefix) is removed
  // from the first word of a text.
  virtual bool strips_leading_blank() const = 0;

  virtual uint32_t n_vocab() const = 0;
  virtual TokenKind kind(TokenId id) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool adds_bos() const = 0;
  // The tokens that end an answer: EOS, and EOT if the vocabulary has one.
  virtual std::span<const TokenId> end_tokens() const = 0;
  // The source of the model's chat template; empty if it has none.
  virtual std::string_view chat_template() const = 0;
  // For `kvik show`: "gpt2 (pre-tokenizer gpt-2), 50,257 tokens, 50,000 merges".
  virtual std::string describe() const = 0;

  // Converts all ids at once, like Detokenizer.
  std::string detokenize(std::span<const TokenId> ids, Special special) const;
};

}  // namespace kvik
