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

}  // namespace kvik
