#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "text/blank_mark.h"
#include "text/bpe/bpe_merges.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/split_points.h"
#include "text/bpe/word_cache.h"
#include "text/pre_tokenizer/pre_tokenizer.h"
#include "text/text_index.h"
#include "text/vocabulary_tokenizer.h"

namespace kvik {
namespace {

constexpr const char* kMergesKey = "tokenizer.ggml.merges";

// Finds a token by its text. Converters write user-defined runs of spaces as spaces, while merges
// spell them with the mark U+2581.
std::optional<TokenId> find_token(const Vocabulary& vocabulary, std::string_view text) {
  if (const auto id = vocabulary.find(text)) return id;
  if (text.find(kSpaceMark) == text.npos) return std::nullopt;
  return vocabulary.find(space_marks_to_spaces(text));
}

// Reads tokenizer.ggml.merges. The rank of a merge is its index in the list. As in llama.cpp, a
// merge whose result is not a token is ignored.
//
// Errors: kCorrupt if the key is missing, a merge is not "left right", or one of the two is not a
// token.
Result<BpeMerges> read_merges(const Metadata& metadata, const Vocabulary& vocabulary) {
  TRY_ASSIGN(const std::vector<std::string>* merges, metadata.get_strings(kMergesKey));
  if (!merges) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("metadata key '{}' is missing, expected since 'tokenizer.ggml.model' is "
                    "'gpt2'",
                    kMergesKey));
  }
  BpeMerges joins;
  joins.reserve(merges->size());
  uint32_t rank = 0;
  for (const std::string_view merge : *merges) {
    const size_t blank = merge.find(' ', 1);
    if (blank == merge.npos || blank + 1 == merge.size()) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format(
              "metadata key '{}' has '{}' as number {}, expected two tokens separated by a space",
              kMergesKey, merge, rank));
    }
    const std::string_view halves[] = {merge.substr(0, blank), merge.substr(blank + 1)};
    const auto left = find_token(vocabulary, halves[0]), right = find_token(vocabulary, halves[1]);
    for (const std::string_view half : halves) {
      if (find_token(vocabulary, half)) continue;
      return fail(ErrorCode::kCorrupt, fmt::format("metadata key '{}' has '{}' as number {}, "
                                                   "expected two tokens, but '{}' is not a token",
                                                   kMergesKey, merge, rank, half));
    }
    const auto joined = find_token(vocabulary, std::string(halves[0]).append(halves[1]));
    if (joined && vocabulary.is_plain(*joined)) joins.insert(*left, *right, {rank, *joined});
    ++rank;
  }
  return joins;
}

// Splits text into words, maps the bytes of each word to tokens, and merges adjacent tokens in the
// order of the ranks. If the vocabulary has all 256 bytes, decoding restores any bytes, valid UTF-8
// or not.
//
// Model "gemma4" works on characters instead: spaces become U+2581, and a character without a token
// becomes byte tokens such as "<0x0A>".
class BpeTokenizer final : public VocabularyTokenizer {
 public:
  enum class Symbols { kBytes, kCharacters };

  BpeTokenizer(Vocabulary vocabulary, BpeMerges merges, const PreTokenizer& pre_tokenizer,
               Symbols symbols);

  bool strips_leading_space() const override { return false; }
  std::string describe() const override {
    return fmt::format("{} (pre-tokenizer {}), {} tokens, {} merges",
                       symbols_ == Symbols::kBytes ? "gpt2" : "gemma4", pre_tokenizer_.name,
                       group_digits(n_vocab()), group_digits(merges_.size()));
  }

 private:
  void encode(std::string_view text, After, std::vector<TokenId>& ids) const override {
    BpeMerges::Scratch scratch;
    const auto encode = [&](std::string_view word) { encode_word(word, scratch, ids); };
    if (symbols_ == Symbols::kBytes) {
      WordCache seen(text, ids);
      pre_tokenizer_.each_word(text, [&](std::string_view word) { seen.append(word, encode); });
      return;
    }
    std::string marked;
    append_with_space_marks(text, marked);
    WordCache seen(marked, ids);
    pre_tokenizer_.each_word(marked, [&](std::string_view line) {
      split_points_.each_part(line, [&](std::string_view part) { seen.append(part, encode); });
    });
  }

  void encode_word(std::string_view word, BpeMerges::Scratch& scratch,
                   std::vector<TokenId>& ids) const {
    if (pre_tokenizer_.whole_words_first) {
      if (const std::optional<TokenId> id = by_bytes_.find(pieces_, word)) {
        ids.push_back(*id);
        return;
      }
    }
    const size_t from = ids.size();
    if (symbols_ == Symbols::kCharacters) {
      append_characters(word, ids);
    } else {
      append_bytes(word, ids);
    }
    merges_.join(ids, from, scratch);
  }

  void append_characters(std::string_view word, std::vector<TokenId>& ids) const {
    for (size_t at = 0; at < word.size();) {
      const std::string_view character = word.substr(at, n_character_bytes(word, at));
      if (const std::optional<TokenId> id = vocabulary_.find_plain(character)) {
        ids.push_back(*id);
      } else {
        append_bytes(character, ids);
      }
      at += character.size();
    }
  }

  // Appends the tokens of bytes. A byte that the vocabulary lacks becomes the unknown token with
  // Gemma 4's characters and is dropped with byte symbols, as in the models' own tokenizers: Falcon
  // has no token for a vertical tab.
  void append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
    for (const char byte : bytes) {
      if (const std::optional<TokenId> id = byte_tokens_[static_cast<uint8_t>(byte)]) {
        ids.push_back(*id);
      } else if (symbols_ == Symbols::kCharacters && vocabulary_.unknown) {
        ids.push_back(*vocabulary_.unknown);
      }
    }
  }

  std::optional<TokenId> find_byte(uint8_t byte) const {
    if (symbols_ == Symbols::kCharacters) return vocabulary_.find(byte_token(byte));
    const auto id = vocabulary_.find(byte_to_letter(byte));
    // A user-defined token "ø" is the character itself, not the byte that the byte alphabet writes
    // as "ø".
    return id && vocabulary_.kinds[*id] == TokenKind::kNormal ? id : std::nullopt;
  }

  // Returns the bytes of a token. A text with characters outside the byte alphabet belongs to an
  // added token, which is stored literally.
  std::string decode(std::string_view token_text) const override {
    if (symbols_ == Symbols::kCharacters) return VocabularyTokenizer::decode(token_text);
    return letters_to_bytes(token_text).value_or(std::string(token_text));
  }

  const BpeMerges merges_;
  const PreTokenizer& pre_tokenizer_;
  const Symbols symbols_;
  const SplitPoints split_points_;  // splits lines, which are long words here
  TextIndex by_bytes_;              // index of pieces_, if whole words have priority
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, BpeMerges merges,
                           const PreTokenizer& pre_tokenizer, Symbols symbols)
    : VocabularyTokenizer(std::move(vocabulary)),
      merges_(std::move(merges)),
      pre_tokenizer_(pre_tokenizer),
      symbols_(symbols),
      split_points_(vocabulary_) {
  make_pieces();
  for (int byte = 0; byte < 256; ++byte) byte_tokens_[byte] = find_byte(static_cast<uint8_t>(byte));
  if (!pre_tokenizer_.whole_words_first) return;
  by_bytes_.reserve(n_vocab());
  for (TokenId id = 0; id < n_vocab(); ++id) {
    const bool is_word = vocabulary_.kinds[id] == TokenKind::kNormal && !pieces_[id].empty() &&
                         letters_to_bytes(vocabulary_.texts[id]);
    if (is_word) by_bytes_.insert(pieces_, id);
  }
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> read_bpe_tokenizer(const Metadata& metadata) {
  TRY_ASSIGN(const std::optional<std::string> named, metadata.get_string("tokenizer.ggml.pre"));
  TRY_ASSIGN(const auto model, metadata.get_string("tokenizer.ggml.model"));
  const bool is_gemma4 = model == "gemma4";
  const std::string name = is_gemma4 ? "gemma4" : named.value_or("default");
  TRY_ASSIGN(const PreTokenizer* pre_tokenizer, find_pre_tokenizer(name));
  const VocabularyDefaults defaults = {std::nullopt, std::nullopt, std::nullopt,
                                       pre_tokenizer->adds_bos};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  TRY_ASSIGN(BpeMerges merges, read_merges(metadata, vocabulary));
  using Symbols = BpeTokenizer::Symbols;
  return std::make_unique<BpeTokenizer>(std::move(vocabulary), std::move(merges), *pre_tokenizer,
                                        is_gemma4 ? Symbols::kCharacters : Symbols::kBytes);
}

}  // namespace kvik
