#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace kvik {

// The common base of tokenizers. It implements queries of the vocabulary, special tokens, BOS and
// EOS. Derived classes encode the plain text between special tokens and decode the texts of tokens.
class VocabularyTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> tokenize(std::string_view text, const TokenizeOptions& options) const final;
  std::vector<TokenId> tokenize_chat(std::string_view text,
                                     std::span<const TextRange> trusted) const final;
  std::string piece(TokenId id, Special special) const final;
  uint32_t n_vocab() const final { return vocabulary_.n_vocab(); }
  TokenKind kind(TokenId id) const final;
  std::optional<TokenId> bos() const final { return vocabulary_.bos; }
  std::optional<TokenId> eos() const final { return vocabulary_.eos; }
  std::string_view chat_template() const final { return vocabulary_.chat_template; }
  bool adds_bos() const final { return vocabulary_.adds_bos; }
  std::span<const TokenId> end_tokens() const final { return vocabulary_.end_tokens; }

 protected:
  explicit VocabularyTokenizer(Vocabulary vocabulary);

  // The context before a plain text: nothing, a special token, or other plain text.
  enum class After { kNothing, kToken, kText };

  // Appends the ids of `text`, which is not empty and at most kMaxPartBytes long.
  virtual void encode(std::string_view text, After after, std::vector<TokenId>& ids) const = 0;

  // Returns the bytes of a normal token. By default they are its text with space marks replaced by
  // spaces.
  virtual std::string decode(std::string_view token_text) const;

  // Fills pieces_. The constructor of each derived class calls it at its end, when decode() works.
  void make_pieces();

  // Longer text is encoded in parts, so that scratch memory stays bounded and offsets fit 32 bits.
  static constexpr size_t kMaxPartBytes = size_t{16} << 20;

  const Vocabulary vocabulary_;
  std::vector<std::string> pieces_;  // [n_vocab]

 private:
  void encode_fragments(std::string_view text, std::span<const TextRange> trusted,
                        std::vector<TokenId>& ids) const;
  void encode_in_parts(std::string_view text, After after, std::vector<TokenId>& ids) const;

  SpecialTokens special_tokens_;
};

// Read the tokenizers of tokenizer.ggml.model: "gpt2" (byte-level BPE) and "gemma4", "llama"
// (SentencePiece BPE), "t5" (SentencePiece Unigram), "bert" (WordPiece). Return the errors of
// Tokenizer::from_metadata().
using TokenizerReader = Result<std::unique_ptr<Tokenizer>>(const Metadata& metadata);
TokenizerReader read_bpe_tokenizer, read_spm_tokenizer, read_unigram_tokenizer,
    read_word_piece_tokenizer;

}  // namespace kvik
