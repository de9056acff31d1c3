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

// A part of a text, in bytes.
struct TextRange {
  size_t begin;
  size_t end;
};

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// Text → ids and back, for one vocabulary. Immutable after loading: any thread.
// tokenize() is linear (times a logarithm) in the text's length, whatever the text (THREATS 19),
// and takes any bytes: what is not UTF-8 is tokenized byte for byte.
class Tokenizer {
 public:
  // Reads tokenizer.ggml.*: models "gpt2" (byte-level BPE), "gemma4" (BPE of characters), "llama"
  // (SentencePiece BPE with byte fallback), "t5" (SentencePiece Unigram) and "bert" (WordPiece). In
  // their place may be the tokenizer.json of a Hugging Face folder, as tokenizer.huggingface.json.
  // Errors: kUnsupported for another model or pre-tokenizer, kCorrupt where arrays
  // disagree, a merge or a special id lies outside the vocabulary (THREATS 25).
  static Result<std::unique_ptr<Tokenizer>> from_metadata(const Metadata& metadata);

  virtual ~Tokenizer() = default;

  virtual std::vector<TokenId> tokenize(std::string_view text,
                                        const TokenizeOptions& options) const = 0;

  // A prompt's ids as its chat template made it: special tokens are parsed where they lie within
  // one of the ranges in `trusted`, which ascend and do not touch; elsewhere they are plain text
  // (THREATS 20). Nothing is put before or behind it.
  virtual std::vector<TokenId> tokenize_chat(std::string_view text,
                                             std::span<const TextRange> trusted) const = 0;

  // The bytes a token stands for; control tokens are empty unless `special` asks for their names.
  // A token of a multi-byte character may hold a part of it: see Detokenizer.
  enum class Special { kHide, kShow };
  virtual std::string piece(TokenId id, Special special) const = 0;

  // True where the first word of a text loses the blank that tokenizing put before it
  // (SentencePiece's add_dummy_prefix).
  virtual bool strips_leading_blank() const = 0;

  virtual uint32_t n_vocab() const = 0;
  virtual TokenKind kind(TokenId id) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  virtual bool adds_bos() const = 0;
  // Tokens that end an answer: eos, and eot where the vocabulary names one.
  virtual std::span<const TokenId> end_tokens() const = 0;
  // The source of the model's chat template; empty where it has none.
  virtual std::string_view chat_template() const = 0;
  // For `kvik show`: "gpt2 (pre-tokenizer gpt-2), 50,257 tokens, 50,000 merges".
  virtual std::string describe() const = 0;

  // All of it at once, as Detokenizer would.
  std::string detokenize(std::span<const TokenId> ids, Special special) const;
};

}  // namespace kvik
