#include "text/grammar/vocabulary_trie.h"

#include <algorithm>

#include "text/utf8.h"

namespace kvik::grammar {
namespace {

bool is_plain(std::string_view token) {
  uint32_t n_characters = 0;
  for (size_t at = 0; at < token.size(); ++n_characters) {
    const Utf8Step step = next_utf8(token, at);
    if (step.kind != Utf8Step::Kind::kValid) return false;
    if (!VocabularyTrie::plain_characters().contains(step.code_point)) return false;
    at += step.n_bytes;
  }
  return n_characters <= VocabularyTrie::kMaxPlainCharacters;
}

// `ids` ascend by their texts, which begin alike up to `depth`.
VocabularyTrie::Tree make_tree(std::vector<TokenId> ids, const std::vector<std::string>& tokens) {
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const int order = tokens[a].compare(tokens[b]);
    return order != 0 ? order < 0 : a < b;
  });
  VocabularyTrie::Tree tree;
  std::vector<uint32_t> path;  // the nodes of the text before
  std::string_view before;
  const auto shorten_to = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      tree.nodes[path.back()].end = static_cast<uint32_t>(tree.nodes.size());
    }
  };
  for (const TokenId id : ids) {
    const std::string_view text = tokens[id];
    const auto [differs, its] = std::ranges::mismatch(before, text);
    shorten_to(static_cast<size_t>(differs - before.begin()));
    for (size_t depth = path.size(); depth < text.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(tree.nodes.size()));
      tree.nodes.push_back(
          {0, static_cast<uint32_t>(tree.tokens.size()), 0, static_cast<uint8_t>(text[depth])});
    }
    ++tree.nodes[path.back()].n_tokens;
    tree.tokens.push_back(id);
    before = text;
  }
  shorten_to(0);
  return tree;
}

std::vector<std::string> texts_of(const Tokenizer& tokenizer) {
  std::vector<std::string> texts(tokenizer.n_vocab());
  for (TokenId id = 0; id < texts.size(); ++id) {
    const TokenKind kind = tokenizer.kind(id);
    if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined && kind != TokenKind::kByte) {
      continue;
    }
    texts[id] = tokenizer.piece(id, Tokenizer::Special::kHide);
  }
  // What ends an answer is no part of it, whatever kind the file says it is.
  for (const TokenId id : tokenizer.end_tokens()) texts[id].clear();
  return texts;
}

}  // namespace

const CodePointSet& VocabularyTrie::plain_characters() {
  static const CodePointSet kPlain{{0x20, '!'}, {'#', '['}, {']', kMaxCodePoint}};
  return kPlain;
}

VocabularyTrie::VocabularyTrie(const Tokenizer& tokenizer) : VocabularyTrie(texts_of(tokenizer)) {}

VocabularyTrie::VocabularyTrie(std::vector<std::string> tokens)
    : tokens_(std::move(tokens)), plain_mask_((tokens_.size() + 63) / 64) {
  std::vector<TokenId> plain, other;
  for (TokenId id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    max_token_bytes_ = std::max(max_token_bytes_, static_cast<uint32_t>(tokens_[id].size()));
    if (is_plain(tokens_[id])) {
      plain.push_back(id);
      plain_mask_[id / 64] |= uint64_t{1} << (id % 64);
    } else {
      other.push_back(id);
    }
  }
  plain_ = make_tree(std::move(plain), tokens_);
  other_ = make_tree(std::move(other), tokens_);
}

}  // namespace kvik::grammar
