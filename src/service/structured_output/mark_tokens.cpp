#include "service/structured_output/mark_tokens.h"

#include <algorithm>
#include <span>
#include <string>

namespace kvik {

std::vector<TokenId> mark_tokens(const Tokenizer& tokenizer, std::string_view text,
                                 size_t n_plain) {
  // If the tokenizer adds a blank before the first word of a text, it adds it before this line
  // break.
  const std::string before = tokenizer.strips_leading_space() ? "\n" : "";
  const auto tokens_of = [&](const std::string& whole) {
    const TextRange marks{std::min(before.size() + n_plain, whole.size()), whole.size()};
    return tokenizer.tokenize_chat(whole, std::span(&marks, 1));
  };
  std::vector<TokenId> tokens = tokens_of(before + std::string(text));
  const size_t n_before = before.empty() ? 0 : tokens_of(before).size();
  tokens.erase(tokens.begin(),
               tokens.begin() + static_cast<ptrdiff_t>(std::min(n_before, tokens.size())));
  return tokens;
}

std::string visible_piece(const Tokenizer& tokenizer, TokenId token,
                          const std::vector<TokenId>& shown) {
  const bool is_shown = std::ranges::binary_search(shown, token);
  return tokenizer.piece(token, is_shown ? Tokenizer::Special::kShow : Tokenizer::Special::kHide);
}

std::optional<std::string_view> MarkSearch::after_mark(std::string_view mark,
                                                       std::string_view piece) const {
  // The mark may have begun in the tail and end in the piece.
  for (size_t n_before = std::min(tail_.size(), mark.size() - 1) + 1; n_before-- > 0;) {
    const bool is_begun = std::string_view(tail_).ends_with(mark.substr(0, n_before));
    const std::string_view rest = mark.substr(n_before);
    if (!is_begun) continue;
    if (n_before > 0) {
      if (piece.starts_with(rest)) return piece.substr(rest.size());
      continue;
    }
    const size_t at = piece.find(rest);
    if (at != std::string_view::npos) return piece.substr(at + rest.size());
  }
  return std::nullopt;
}

void MarkSearch::append(std::string_view mark, std::string_view piece) {
  const size_t n_kept = mark.size() - 1;
  tail_ += piece;
  if (tail_.size() > n_kept) tail_.erase(0, tail_.size() - n_kept);
}

}  // namespace kvik
