#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "text/blank_mark.h"
#include "text/bpe/split_points.h"
#include "text/bpe/spm_merges.h"
#include "text/bpe/word_cache.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {
namespace {

// Flag of a symbol for a character that is part of no token. The other bits are its position and
// length in the word.
constexpr TokenId kNoSymbol = TokenId{1} << 31;

// Replaces spaces by U+2581, then merges adjacent characters, the token with the highest score
// first. A character without a token becomes byte tokens, or the unknown token if the vocabulary
// has no byte tokens.
class SpmTokenizer final : public VocabularyTokenizer {
 public:
  // `adds_blank`: whether a space is added before the first word of a text and before text after a
  // special token.
  SpmTokenizer(Vocabulary vocabulary, std::optional<TokenTexts::ByteTokens> byte_tokens,
               bool adds_blank)
      : VocabularyTokenizer(std::move(vocabulary)),
        adds_blank_(adds_blank),
        joins_(vocabulary_),
        split_points_(vocabulary_),
        byte_tokens_(byte_tokens) {
    make_pieces();
  }

  bool strips_leading_space() const override { return adds_blank_; }

  std::string describe() const override {
    return fmt::format("llama (SentencePiece), {} tokens{}", group_digits(n_vocab()),
                       byte_tokens_ ? " with byte fallback" : "");
  }

 private:
  struct Scratch {
    std::vector<TokenId> symbols;
    BpeMerges::Scratch joins;
  };

  void encode(std::string_view text, After after, std::vector<TokenId>& ids) const override {
    std::string marked;
    if (adds_blank_ && after != After::kText) marked = kSpaceMark;
    append_with_space_marks(text, marked);
    Scratch scratch;
    WordCache seen(marked, ids);
    split_points_.each_part(marked, [&](std::string_view part) {
      seen.append(part, [&](std::string_view word) { encode_word(word, scratch, ids); });
    });
  }

  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
    std::vector<TokenId>& symbols = scratch.symbols;
    symbols.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t n_bytes = n_character_bytes(word, at);
      const auto symbol = joins_.symbol(vocabulary_, word.substr(at, n_bytes));
      symbols.push_back(symbol.value_or(kNoSymbol | static_cast<TokenId>(at << 3 | n_bytes)));
      at += n_bytes;
    }
    joins_.joins().join(symbols, 0, scratch.joins);
    for (const TokenId symbol : symbols) {
      if (symbol < n_vocab()) {
        ids.push_back(symbol);
      } else if (symbol < kNoSymbol) {
        encode_as_bytes(joins_.character(vocabulary_, symbol), ids);
      } else {
        const TokenId place = symbol & ~kNoSymbol;
        encode_as_bytes(word.substr(place >> 3, place & 7), ids);
      }
    }
  }

  void encode_as_bytes(std::string_view character, std::vector<TokenId>& ids) const {
    if (!byte_tokens_) {
      ids.push_back(*vocabulary_.unknown);
      return;
    }
    for (const char byte : character) ids.push_back((*byte_tokens_)[static_cast<uint8_t>(byte)]);
  }

  const bool adds_blank_;
  const SpmMerges joins_;
  const SplitPoints split_points_;
  const std::optional<TokenTexts::ByteTokens> byte_tokens_;  // absent unless all 256 are present
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> read_spm_tokenizer(const Metadata& metadata) {
  // llama.cpp's defaults for files without these keys.
  const VocabularyDefaults defaults = {.bos = 1, .eos = 2, .unknown = 0, .adds_bos = true};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  TRY_ASSIGN(const auto adds_blank, metadata.get_bool("tokenizer.ggml.add_space_prefix"));
  const auto found = vocabulary.find_byte_tokens();
  if (!found && !vocabulary.unknown) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("metadata key 'tokenizer.ggml.tokens' has no '{}', expected it, or an "
                            "unknown token",
                            found.error()));
  }
  return std::make_unique<SpmTokenizer>(std::move(vocabulary),
                                        found ? std::optional(*found) : std::nullopt,
                                        adds_blank.value_or(true));
}

}  // namespace kvik
