#include "text/special_tokens.h"

#include <algorithm>

#include "text/vocabulary.h"

namespace kvik {

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
  if (!begins_[static_cast<uint8_t>(text[at])]) return std::nullopt;
  std::optional<Match> longest;
  uint32_t node = 0;
  for (size_t end = at; end < text.size(); ++end) {
    const auto it = edges_.find(edge(node, text[end]));
    if (it == edges_.end()) break;
    node = it->second;
    if (nodes_[node]) longest = Match{*nodes_[node], end + 1 - at};
  }
  return longest;
}

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) {
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

std::vector<SpecialTokens::Fragment> SpecialTokens::partition(std::string_view text,
                                                              Parse parse) const {
  const TokenTrie& trie = parse == Parse::kAll ? all_ : user_defined_;
  std::vector<Fragment> fragments;
  size_t begin = 0;  // of the text that is in no fragment yet
  for (size_t at = 0; at < text.size();) {
    const std::optional<TokenTrie::Match> match = trie.longest_at(text, at);
    if (!match) {
      ++at;
      continue;
    }
    if (at > begin) fragments.push_back({text.substr(begin, at - begin), std::nullopt});
    fragments.push_back({text.substr(at, match->n_bytes), match->id});
    at += match->n_bytes;
    if (eat_blanks_.contains(match->id)) {
      at = std::min(text.find_first_not_of(" \t\n\v\f\r", at), text.size());
    }
    begin = at;
  }
  if (begin < text.size()) fragments.push_back({text.substr(begin), std::nullopt});
  return fragments;
}

}  // namespace kvik
