#include "text/bpe/spm_merges.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvik {
namespace {

// Returns the end offsets of the characters of `text`.
std::vector<size_t> character_ends(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t at = 0; at < text.size();) {
    at += n_character_bytes(text, at);
    ends.push_back(at);
  }
  return ends;
}

}  // namespace

SpmMerges::SpmMerges(const Vocabulary& vocabulary) {
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < vocabulary.n_vocab(); ++id) {
    if (vocabulary.is_plain(id) && !vocabulary.texts[id].empty()) tokens.push_back(id);
  }
  for (const TokenId id : tokens) {
    const size_t n_bytes = vocabulary.texts[id].size();
    if (lengths_.size() <= n_bytes) lengths_.resize(n_bytes + 1);
    lengths_[n_bytes] = true;
  }
  const auto& scores = vocabulary.scores;
  std::sort(tokens.begin(), tokens.end(),
            [&](TokenId a, TokenId b) { return scores[a] > scores[b]; });
  joins_.reserve(2 * tokens.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && scores[tokens[i]] != scores[tokens[i - 1]]) ++rank;
    add_token(vocabulary, tokens[i], rank);
  }
  for (size_t i = 0; i < ascii_.size(); ++i) {
    const char c = static_cast<char>(i);
    ascii_[i] = look_up(vocabulary, std::string_view(&c, 1));
  }
}

// Adds all pairs of symbols that merge to this token.
void SpmMerges::add_token(const Vocabulary& vocabulary, TokenId id, uint32_t rank) {
  const std::string_view text = vocabulary.texts[id];
  const std::vector<size_t> ends = character_ends(text);
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    const std::string_view left = text.substr(0, ends[i]);
    const std::string_view right = text.substr(ends[i]);
    const bool left_is_one = i == 0;
    const bool right_is_one = i + 2 == ends.size();
    const bool may_be =
        (lengths_[left.size()] || left_is_one) && (lengths_[right.size()] || right_is_one);
    if (!may_be) continue;
    const auto left_id = vocabulary.find_plain(left);
    const auto right_id = vocabulary.find_plain(right);
    if ((!left_id && !left_is_one) || (!right_id && !right_is_one)) continue;
    joins_.insert(left_id ? *left_id : add_symbol(vocabulary, left),
                  right_id ? *right_id : add_symbol(vocabulary, right), {rank, id});
  }
}

TokenId SpmMerges::add_symbol(const Vocabulary& vocabulary, std::string_view character) {
  characters_.emplace_back(character);
  const auto number = static_cast<uint32_t>(characters_.size() - 1);
  const std::optional<uint32_t> same_text = index_.insert(characters_, number);
  if (same_text) characters_.pop_back();
  return vocabulary.n_vocab() + same_text.value_or(number);
}

std::optional<TokenId> SpmMerges::symbol(const Vocabulary& vocabulary,
                                         std::string_view character) const {
  const auto first = static_cast<uint8_t>(character.front());
  return first < ascii_.size() ? ascii_[first] : look_up(vocabulary, character);
}

std::optional<TokenId> SpmMerges::look_up(const Vocabulary& vocabulary,
                                          std::string_view character) const {
  if (const auto id = vocabulary.find_plain(character)) return id;
  const auto number = index_.find(characters_, character);
  return number ? std::optional(vocabulary.n_vocab() + *number) : std::nullopt;
}

}  // namespace kvik
