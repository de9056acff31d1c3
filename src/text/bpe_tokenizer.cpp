#include "text/bpe_tokenizer.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "text/blank_mark.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace kvik {
namespace {

// Longer words seldom come twice.
constexpr size_t kMaxRememberedBytes = 32;

}  // namespace

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::read(const Metadata& metadata) {
  TRY_ASSIGN(const std::optional<std::string> named, metadata.get_string("tokenizer.ggml.pre"));
  TRY_ASSIGN(const auto model, metadata.get_string("tokenizer.ggml.model"));
  const bool is_gemma4 = model == "gemma4";
  const std::string name = is_gemma4 ? "gemma4" : named.value_or("default");
  TRY_ASSIGN(const PreTokenizer* pre_tokenizer, find_pre_tokenizer(name));
  const VocabularyDefaults defaults = {std::nullopt, std::nullopt, std::nullopt,
                                       pre_tokenizer->adds_bos};
  TRY_ASSIGN(Vocabulary vocabulary, read_vocabulary(metadata, defaults));
  TRY_ASSIGN(BpeMerges merges, BpeMerges::read(metadata, vocabulary));
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(vocabulary), std::move(merges), *pre_tokenizer,
                       is_gemma4 ? Symbols::kCharacters : Symbols::kBytes));
  TRY(tokenizer->find_byte_tokens());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, BpeMerges merges,
                           const PreTokenizer& pre_tokenizer, Symbols symbols)
    : VocabularyTokenizer(std::move(vocabulary)),
      merges_(std::move(merges)),
      pre_tokenizer_(pre_tokenizer),
      symbols_(symbols) {
  make_pieces();
}

std::optional<TokenId> BpeTokenizer::find_byte(uint8_t byte) const {
  if (symbols_ == Symbols::kCharacters) return vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  const auto id = vocabulary_.find(byte_to_letter(byte));
  // A user-defined "ø" stands for that character, not for the byte that the alphabet writes so.
  return id && vocabulary_.kinds[*id] == TokenKind::kNormal ? id : std::nullopt;
}

Result<void> BpeTokenizer::find_byte_tokens() {
  std::optional<uint8_t> missing;
  for (int byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = find_byte(static_cast<uint8_t>(byte));
    if (!byte_tokens_[byte]) missing = static_cast<uint8_t>(byte);
  }
  if (!missing) return {};
  if (vocabulary_.unknown) {
    missing_byte_ = {*vocabulary_.unknown};
    return {};
  }
  for (const char byte : kReplacementCharacter) {
    const std::optional<TokenId> id = byte_tokens_[static_cast<uint8_t>(byte)];
    if (!id) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("metadata key 'tokenizer.ggml.tokens' has no token for the byte "
                              "0x{:02X}, expected one, or an unknown token",
                              *missing));
    }
    missing_byte_.push_back(*id);
  }
  return {};
}

void BpeTokenizer::encode(std::string_view text, After, std::vector<TokenId>& ids) const {
  if (symbols_ == Symbols::kCharacters) {
    encode_words(blanks_to_blank_marks(text), ids);
  } else {
    encode_words(text, ids);
  }
}

void BpeTokenizer::encode_words(std::string_view text, std::vector<TokenId>& ids) const {
  struct Range {
    size_t begin;
    size_t end;
  };
  std::unordered_map<std::string_view, Range> seen;  // where in `ids` a word was encoded before
  BpeMerges::Scratch scratch;
  for (const std::string_view word : pre_tokenizer_.split(text)) {
    if (word.size() > kMaxRememberedBytes) {
      encode_word(word, scratch, ids);
      continue;
    }
    const auto [it, is_new] = seen.emplace(word, Range{});
    if (is_new) {
      const size_t begin = ids.size();
      encode_word(word, scratch, ids);
      it->second = {begin, ids.size()};
    } else {
      for (size_t i = it->second.begin; i < it->second.end; ++i) ids.push_back(ids[i]);
    }
  }
}

void BpeTokenizer::encode_word(std::string_view word, BpeMerges::Scratch& scratch,
                               std::vector<TokenId>& ids) const {
  if (pre_tokenizer_.whole_words_first) {
    std::string letters;
    for (const char byte : word) letters += byte_to_letter(static_cast<uint8_t>(byte));
    if (const std::optional<TokenId> id = vocabulary_.find_plain(letters)) {
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
    const Utf8Step step = next_utf8(word, at);
    const size_t n_bytes = step.kind == Utf8Step::Kind::kValid ? step.n_bytes : 1;
    const std::string_view character = word.substr(at, n_bytes);
    if (const std::optional<TokenId> id = vocabulary_.find_plain(character)) {
      ids.push_back(*id);
    } else {
      append_bytes(character, ids);
    }
    at += n_bytes;
  }
}

void BpeTokenizer::append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  for (const char byte : bytes) {
    if (const std::optional<TokenId> id = byte_tokens_[static_cast<uint8_t>(byte)]) {
      ids.push_back(*id);
    } else {
      ids.insert(ids.end(), missing_byte_.begin(), missing_byte_.end());
    }
  }
}

// A text outside the byte alphabet is an added token, spelled as it is.
std::string BpeTokenizer::decode(std::string_view token_text) const {
  if (symbols_ == Symbols::kCharacters) return blank_marks_to_blanks(token_text);
  return letters_to_bytes(token_text).value_or(std::string(token_text));
}

std::string BpeTokenizer::describe() const {
  return fmt::format("{} (pre-tokenizer {}), {} tokens, {} merges",
                     symbols_ == Symbols::kBytes ? "gpt2" : "gemma4", pre_tokenizer_.name,
                     group_digits(n_vocab()), group_digits(merges_.size()));
}

}  // namespace kvik
