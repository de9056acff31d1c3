#include "text/vocabulary_tokenizer.h"

#include <utility>

#include "base/check.h"
#include "text/blank_mark.h"

namespace kvik {

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), special_tokens_(vocabulary_) {}

std::vector<TokenId> VocabularyTokenizer::tokenize(std::string_view text,
                                                   const TokenizeOptions& options) const {
  std::vector<TokenId> ids;
  if (options.add_bos && vocabulary_.adds_bos) ids.push_back(*vocabulary_.bos);
  const TextRange all[] = {{0, text.size()}};
  const std::span<const TextRange> trusted(all, options.parse_special ? 1 : 0);
  encode_fragments(text, trusted, ids);
  if (options.add_bos && vocabulary_.adds_eos) ids.push_back(*vocabulary_.eos);
  return ids;
}

std::vector<TokenId> VocabularyTokenizer::tokenize_chat(std::string_view text,
                                                        std::span<const TextRange> trusted) const {
  std::vector<TokenId> ids;
  encode_fragments(text, trusted, ids);
  return ids;
}

void VocabularyTokenizer::encode_fragments(std::string_view text,
                                           std::span<const TextRange> trusted,
                                           std::vector<TokenId>& ids) const {
  After after = After::kNothing;
  special_tokens_.each_fragment(text, trusted, [&](const SpecialTokens::Fragment& fragment) {
    if (fragment.id) {
      ids.push_back(*fragment.id);
    } else {
      encode_in_parts(fragment.text, after, ids);
    }
    after = After::kToken;
  });
}

void VocabularyTokenizer::encode_in_parts(std::string_view text, After after,
                                          std::vector<TokenId>& ids) const {
  const auto continues_character = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; };
  while (!text.empty()) {
    size_t end = std::min(text.size(), kMaxPartBytes);
    for (int i = 0; i < 3 && end < text.size() && continues_character(text[end]); ++i) --end;
    encode(text.substr(0, end), after, ids);
    text.remove_prefix(end);
    after = After::kText;
  }
}

std::string VocabularyTokenizer::piece(TokenId id, Special special) const {
  CHECK(id < vocabulary_.n_vocab());
  const bool is_hidden = vocabulary_.kinds[id] == TokenKind::kControl ||
                         vocabulary_.kinds[id] == TokenKind::kUnknown ||
                         vocabulary_.kinds[id] == TokenKind::kUnused;
  return is_hidden && special == Special::kHide ? std::string() : pieces_[id];
}

TokenKind VocabularyTokenizer::kind(TokenId id) const {
  CHECK(id < vocabulary_.n_vocab());
  return vocabulary_.kinds[id];
}

std::string VocabularyTokenizer::decode(std::string_view token_text) const {
  return space_marks_to_spaces(token_text);
}

void VocabularyTokenizer::make_pieces() {
  pieces_.reserve(vocabulary_.n_vocab());
  for (TokenId id = 0; id < vocabulary_.n_vocab(); ++id) {
    const std::string& text = vocabulary_.texts[id];
    switch (vocabulary_.kinds[id]) {
      case TokenKind::kNormal:
        pieces_.push_back(decode(text));
        break;
      case TokenKind::kByte:
        pieces_.emplace_back(1, static_cast<char>(*parse_byte_token(text)));
        break;
      default:
        pieces_.push_back(text);
    }
  }
}

}  // namespace kvik
