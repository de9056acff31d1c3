#include "text/word_piece/word_piece_search.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kvik {

void WordPieceSearch::cut(std::string_view word, std::vector<TokenId>& ids) const {
  const auto begins_character = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
  const auto n_chars = static_cast<size_t>(std::ranges::count_if(word, begins_character));
  const size_t from = ids.size();
  std::optional<TokenTrie::Match> token;
  for (size_t at = 0; at < word.size() && n_chars <= limits_.max_chars; at += token->n_bytes) {
    token = (at == 0 ? first_ : further_).longest_at(word, at);
    if (!token) break;
    ids.push_back(token->id);
  }
  if (token) return;
  ids.resize(from);
  ids.push_back(limits_.unknown);
}

}  // namespace kvik
