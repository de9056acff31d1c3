#include "text/bpe/bpe_tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "text/blank_mark.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/seen_words.h"
#include "text/utf8.h"

namespace kvik {
Result<std::unique_ptr<Tokenizer>> BpeTokenizer::read(const Metadata& metadata) {
  TRY_ASSIGN(const std::optional<std::string> named, metadata.get_string("tokenizer.ggml.pre"));
  TRY_ASSIGN(const auto model, metadata.get_string("tokenizer.ggml.model"));
  const bool is_gemma4 = model == "gemma4";
  const std::string name = is_gemma4 ? "gemma4" : named.value_or("default");
  TRY_ASSIGN(const PreTokenizer* pre_tokenizer, find_pre_tokenizer(name));
  const VocabularyDefaults defaults = {std::nullopt, std::nullopt, std::nullopt,
                                       pre_tokenizer->adds_bos};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  TRY_ASSIGN(TokenJoins merges, read_merges(metadata, vocabulary));
  return std::unique_ptr<Tokenizer>(
      new BpeTokenizer(std::move(vocabulary), std::move(merges), *pre_tokenizer,
                       is_gemma4 ? Symbols::kCharacters : Symbols::kBytes));
}

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, TokenJoins merges,
                           const PreTokenizer& pre_tokenizer, Symbols symbols)
    : VocabularyTokenizer(std::move(vocabulary)),
      merges_(std::move(merges)),
      pre_tokenizer_(pre_tokenizer),
      symbols_(symbols),
      seams_(vocabulary_) {
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

std::optional<TokenId> BpeTokenizer::find_byte(uint8_t byte) const {
  if (symbols_ == Symbols::kCharacters) return vocabulary_.find(byte_token(byte));
  const auto id = vocabulary_.find(byte_to_letter(byte));
  // A user-defined "ø" stands for that character, not for the byte that the alphabet writes so.
  return id && vocabulary_.kinds[*id] == TokenKind::kNormal ? id : std::nullopt;
}

void BpeTokenizer::encode(std::string_view text, After, std::vector<TokenId>& ids) const {
  TokenJoins::Scratch scratch;
  const auto encode = [&](std::string_view word) { encode_word(word, scratch, ids); };
  if (symbols_ == Symbols::kBytes) {
    SeenWords seen(text, ids);
    for (const std::string_view word : pre_tokenizer_.split(text)) seen.append(word, encode);
    return;
  }
  const std::string marked = blanks_to_blank_marks(text);
  SeenWords seen(marked, ids);
  for (const std::string_view line : pre_tokenizer_.split(marked)) {
    seams_.each_part(line, [&](std::string_view part) { seen.append(part, encode); });
  }
}

void BpeTokenizer::encode_word(std::string_view word, TokenJoins::Scratch& scratch,
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

void BpeTokenizer::append_characters(std::string_view word, std::vector<TokenId>& ids) const {
  for (size_t at = 0; at < word.size();) {
    const size_t n_bytes = n_character_bytes(word, at);
    const std::string_view character = word.substr(at, n_bytes);
    if (const std::optional<TokenId> id = vocabulary_.find_plain(character)) {
      ids.push_back(*id);
    } else {
      append_bytes(character, ids);
    }
    at += n_bytes;
  }
}

// A byte that the vocabulary lacks becomes the unknown token in Gemma 4's scheme and nothing in the
// byte-level one, as in the models' own tokenizers: Falcon has no token for a vertical tab.
void BpeTokenizer::append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const char byte : bytes) {
    if (const std::optional<TokenId> id = byte_tokens_[static_cast<uint8_t>(byte)]) {
      ids.push_back(*id);
    } else if (symbols_ == Symbols::kCharacters && vocabulary_.unknown) {
      ids.push_back(*vocabulary_.unknown);
    }
  }
}

// A text outside the byte alphabet is an added token, spelled as it is.
std::string BpeTokenizer::decode(std::string_view token_text) const {
  if (symbols_ == Symbols::kCharacters) return VocabularyTokenizer::decode(token_text);
  return letters_to_bytes(token_text).value_or(std::string(token_text));
}

std::string BpeTokenizer::describe() const {
  return fmt::format("{} (pre-tokenizer {}), {} tokens, {} merges",
                     symbols_ == Symbols::kBytes ? "gpt2" : "gemma4", pre_tokenizer_.name,
                     group_digits(n_vocab()), group_digits(merges_.size()));
}

}  // namespace kvik
