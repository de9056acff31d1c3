#include "text/special_tokens.h"

#include <utility>

#include "base/utf8.h"
#include "text/pre_tokenizer/char_class.h"
#include "text/vocabulary.h"

namespace kvik {
namespace {

// Returns the end of the whitespace that begins at `at`.
size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Step step = next_utf8(text, at);
    const bool is_one = step.kind == Utf8Step::Kind::kValid && is_blank(make_char(step.code_point));
    if (!is_one) break;
    at += step.n_bytes;
  }
  return at;
}

bool is_word_character(std::string_view text, size_t at) {
  const Utf8Step step = next_utf8(text, at);
  return step.kind == Utf8Step::Kind::kValid && is_word(make_char(step.code_point));
}

// Returns whether text[begin, end) is part of a longer word.
bool is_within_word(std::string_view text, size_t begin, size_t end) {
  size_t before = begin;
  while (before > 0 && begin - before < 4) {
    if ((text[--before] & 0xC0) != 0x80) break;
  }
  return (begin > 0 && is_word_character(text, before)) ||
         (end < text.size() && is_word_character(text, end));
}

std::string_view without_trailing_blanks(std::string_view text) {
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (last > 0 && text.size() - last < 4 && (text[last] & 0xC0) == 0x80) --last;
    if (skip_blanks(text, last) != text.size()) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

}  // namespace

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary)
    : strips_after_(vocabulary.strips_after),
      strips_before_(vocabulary.strips_before),
      whole_words_(vocabulary.whole_words) {
  std::vector<TokenTrie::Entry> user_defined, all;
  for (TokenId id = 0; id < vocabulary.n_vocab(); ++id) {
    const std::string& text = vocabulary.texts[id];
    const TokenKind kind = vocabulary.kinds[id];
    if (vocabulary.found_after_normalization.contains(id)) continue;
    if (kind == TokenKind::kUserDefined) user_defined.push_back({text, id});
    if (kind == TokenKind::kUserDefined || kind == TokenKind::kControl ||
        kind == TokenKind::kUnknown) {
      all.push_back({text, id});
    }
  }
  user_defined_ = TokenTrie(std::move(user_defined));
  all_ = TokenTrie(std::move(all));
}

void SpecialTokens::each_fragment(std::string_view text, std::span<const TextRange> trusted,
                                  const std::function<void(const Fragment&)>& take) const {
  size_t i = 0;  // index of the first range that ends after this position
  const auto find = [&](size_t at) {
    while (i < trusted.size() && trusted[i].end <= at) ++i;
    const bool is_trusted = i < trusted.size() && trusted[i].begin <= at;
    if (!all_.any_begins_with(text[at])) return std::optional<TokenTrie::Match>();
    const auto words = user_defined_.longest_at(text, at);
    if (!is_trusted) return words;
    const auto frame = all_.longest_at(text.substr(0, trusted[i].end), at);
    return frame && (!words || frame->n_bytes >= words->n_bytes) ? frame : words;
  };
  size_t begin = 0;  // start of the text not yet in a fragment
  for (size_t at = 0; at < text.size();) {
    const std::optional<TokenTrie::Match> match = find(at);
    const bool is_one = match && !(whole_words_.contains(match->id) &&
                                   is_within_word(text, at, at + match->n_bytes));
    if (!is_one) {
      ++at;
      continue;
    }
    std::string_view before = text.substr(begin, at - begin);
    if (strips_before_.contains(match->id)) before = without_trailing_blanks(before);
    if (!before.empty()) take({before, std::nullopt});
    take({text.substr(at, match->n_bytes), match->id});
    at += match->n_bytes;
    if (strips_after_.contains(match->id)) at = skip_blanks(text, at);
    begin = at;
  }
  if (begin < text.size()) take({text.substr(begin), std::nullopt});
}

}  // namespace kvik
