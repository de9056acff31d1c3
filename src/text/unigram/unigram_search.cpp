#include "text/unigram/unigram_search.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvik {

void UnigramSearch::cut(std::string_view text, std::vector<Best>& best,
                        std::vector<Token>& tokens) const {
  best.assign(text.size() + 1, {});
  best[0].score = 0;
  const auto offer = [&](size_t begin, size_t end, TokenId id, double score) {
    const double sum = best[begin].score + score;
    if (sum > best[end].score) best[end] = {sum, id, static_cast<uint32_t>(begin)};
  };
  for (size_t at = 0; at < text.size();) {
    const size_t n_bytes = n_character_bytes(text, at);
    bool is_known = false;
    tokens_.each_at(text, at, [&](const TokenTrie::Match& match) {
      is_known |= match.n_bytes == n_bytes;
      offer(at, at + match.n_bytes, match.id, scores_[match.id]);
    });
    if (!is_known) offer(at, at + n_bytes, unknown_.id, unknown_.score);
    at += n_bytes;
  }
  tokens.clear();
  for (size_t end = text.size(); end > 0; end = best[end].begin) {
    tokens.push_back({best[end].id, best[end].begin});
  }
  std::reverse(tokens.begin(), tokens.end());
}

}  // namespace kvik
