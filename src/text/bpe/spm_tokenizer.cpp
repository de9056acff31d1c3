#include "text/bpe/spm_tokenizer.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "text/blank_mark.h"
#include "text/bpe/seen_words.h"
#include "text/utf8.h"

namespace kvik {

namespace {

// A character that takes part in no token: its place and length in the word.
constexpr TokenId kStranger = TokenId{1} << 31;

}  // namespace

Result<std::unique_ptr<Tokenizer>> SpmTokenizer::read(const Metadata& metadata) {
  // What llama.cpp assumes of files that do not say.
  const VocabularyDefaults defaults = {.bos = 1, .eos = 2, .unknown = 0, .adds_bos = true};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  TRY_ASSIGN(const auto adds_blank, metadata.get_bool("tokenizer.ggml.add_space_prefix"));
  std::unique_ptr<SpmTokenizer> tokenizer(
      new SpmTokenizer(std::move(vocabulary), adds_blank.value_or(true)));
  TRY(tokenizer->find_byte_tokens());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

SpmTokenizer::SpmTokenizer(Vocabulary vocabulary, bool adds_blank)
    : VocabularyTokenizer(std::move(vocabulary)),
      adds_blank_(adds_blank),
      joins_(vocabulary_),
      seams_(vocabulary_) {
  make_pieces();
}

Result<void> SpmTokenizer::find_byte_tokens() {
  std::array<TokenId, 256> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = fmt::format("<0x{:02X}>", byte);
    const std::optional<TokenId> id = vocabulary_.find(text);
    if (id) {
      ids[byte] = *id;
    } else if (vocabulary_.unknown) {
      return {};  // all or none: half a character's bytes would be noise
    } else {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("metadata key 'tokenizer.ggml.tokens' has no '{}', expected it, or an "
                      "unknown token",
                      text));
    }
  }
  byte_tokens_ = ids;
  return {};
}

void SpmTokenizer::encode(std::string_view text, After after, std::vector<TokenId>& ids) const {
  std::string marked;
  marked.reserve(text.size() + text.size() / 2);
  if (adds_blank_ && after != After::kText) marked = kBlankMark;
  append_with_blank_marks(text, marked);
  Scratch scratch;
  SeenWords seen(marked, ids);
  for (size_t begin = 0; begin < marked.size();) {
    const size_t end = seams_.next(marked, begin);
    seen.append(std::string_view(marked).substr(begin, end - begin),
                [&](std::string_view word) { encode_word(word, scratch, ids); });
    begin = end;
  }
}

void SpmTokenizer::encode_word(std::string_view word, Scratch& scratch,
                               std::vector<TokenId>& ids) const {
  std::vector<TokenId>& symbols = scratch.symbols;
  symbols.clear();
  for (size_t at = 0; at < word.size();) {
    const Utf8Step step = next_utf8(word, at);
    const size_t n_bytes = step.kind == Utf8Step::Kind::kValid ? step.n_bytes : 1;
    const auto symbol = joins_.symbol(vocabulary_, word.substr(at, n_bytes));
    symbols.push_back(symbol.value_or(kStranger | static_cast<TokenId>(at << 3 | n_bytes)));
    at += n_bytes;
  }
  joins_.joins().join(symbols, 0, scratch.joins);
  for (const TokenId symbol : symbols) {
    if (symbol < n_vocab()) {
      ids.push_back(symbol);
    } else if (symbol < kStranger) {
      encode_as_bytes(joins_.character(vocabulary_, symbol), ids);
    } else {
      const TokenId place = symbol & ~kStranger;
      encode_as_bytes(word.substr(place >> 3, place & 7), ids);
    }
  }
}

void SpmTokenizer::encode_as_bytes(std::string_view character, std::vector<TokenId>& ids) const {
  if (!byte_tokens_) {
    ids.push_back(*vocabulary_.unknown);
    return;
  }
  for (const char byte : character) ids.push_back((*byte_tokens_)[static_cast<uint8_t>(byte)]);
}

std::string SpmTokenizer::decode(std::string_view token_text) const {
  return blank_marks_to_blanks(token_text);
}

std::string SpmTokenizer::describe() const {
  return fmt::format("llama (SentencePiece), {} tokens{}", group_digits(n_vocab()),
                     byte_tokens_ ? " with byte fallback" : "");
}

}  // namespace kvik
