#include "text/special_tokens.h"

#include <algorithm>

#include "text/vocabulary.h"

namespace kvik {
namespace {

constexpr std::string_view kAsciiBlanks = " \t\n\v\f\r";

}  // namespace

void TokenTrie::insert(std::string_view text, TokenId id) {
  if (text.empty()) return;
  begins_[static_cast<uint8_t>(text.front())] = true;
  uint32_t node = 0;
  for (const char byte : text) {
    const auto [it, is_new] = edges_.emplace(edge(node, byte), nodes_.size());
    if (is_new) nodes_.emplace_back();
    node = it->second;
  }
  nodes_[node] = id;
}

std::optional<TokenTrie::Match> TokenTrie::longest_at(std::string_view text, size_t at) const {
  std::optional<Match> longest;
  each_at(text, at, [&](const Match& match) { longest = match; });
  return longest;
}

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary)
    : eats_blanks_before_(vocabulary.eats_blanks_before) {
  for (TokenId id = 0; id < vocabulary.n_vocab(); ++id) {
    const std::string& text = vocabulary.texts[id];
    const TokenKind kind = vocabulary.kinds[id];
    if (kind == TokenKind::kUserDefined) user_defined_.insert(text, id);
    if (kind == TokenKind::kUserDefined || kind == TokenKind::kControl ||
        kind == TokenKind::kUnknown) {
      all_.insert(text, id);
      const bool is_plain_end = text == "<s>" || text == "<unk>" || text == "<|endoftext|>";
      if (vocabulary.special_tokens_eat_blanks && !is_plain_end) eat_blanks_.insert(id);
    }
  }
}

// find(at): the token to cut out there, if any; asked at ascending places.
template <class Find>
std::vector<SpecialTokens::Fragment> SpecialTokens::cut(std::string_view text,
                                                        const Find& find) const {
  std::vector<Fragment> fragments;
  size_t begin = 0;  // of the text that is in no fragment yet
  for (size_t at = 0; at < text.size();) {
    const std::optional<TokenTrie::Match> match = find(at);
    if (!match) {
      ++at;
      continue;
    }
    std::string_view before = text.substr(begin, at - begin);
    if (match->id == eats_blanks_before_) {
      before = before.substr(0, before.find_last_not_of(kAsciiBlanks) + 1);
    }
    if (!before.empty()) fragments.push_back({before, std::nullopt});
    fragments.push_back({text.substr(at, match->n_bytes), match->id});
    at += match->n_bytes;
    if (eat_blanks_.contains(match->id)) {
      at = std::min(text.find_first_not_of(kAsciiBlanks, at), text.size());
    }
    begin = at;
  }
  if (begin < text.size()) fragments.push_back({text.substr(begin), std::nullopt});
  return fragments;
}

std::vector<SpecialTokens::Fragment> SpecialTokens::partition(std::string_view text,
                                                              Parse parse) const {
  const TokenTrie& trie = parse == Parse::kAll ? all_ : user_defined_;
  return cut(text, [&](size_t at) { return trie.longest_at(text, at); });
}

std::vector<SpecialTokens::Fragment> SpecialTokens::partition(
    std::string_view text, std::span<const TextRange> trusted) const {
  size_t i = 0;  // the first range that does not end before here
  return cut(text, [&](size_t at) {
    while (i < trusted.size() && trusted[i].end <= at) ++i;
    const bool is_trusted = i < trusted.size() && trusted[i].begin <= at;
    const auto words = user_defined_.longest_at(text, at);
    if (!is_trusted) return words;
    const auto frame = all_.longest_at(text.substr(0, trusted[i].end), at);
    return frame && (!words || frame->n_bytes >= words->n_bytes) ? frame : words;
  });
}

}  // namespace kvik
