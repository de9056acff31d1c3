#include "constrain/vocabulary/vocabulary_trie.h"

#include <algorithm>

#include "base/utf8.h"

namespace kvik::constrain {
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

std::vector<std::string> texts_of(const Tokenizer& tokenizer) {
  std::vector<std::string> texts(tokenizer.n_vocab());
  for (TokenId id = 0; id < texts.size(); ++id) {
    const TokenKind kind = tokenizer.kind(id);
    if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined && kind != TokenKind::kByte) {
      continue;
    }
    texts[id] = tokenizer.piece(id, Tokenizer::Special::kHide);
  }
  // End tokens are never part of the answer, whatever kind the file gives them.
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
    : tokens_(std::move(tokens)), plain_mask_(n_vocab()) {
  std::vector<TokenId> plain, other;
  for (TokenId id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    max_token_bytes_ = std::max(max_token_bytes_, static_cast<uint32_t>(tokens_[id].size()));
    if (is_plain(tokens_[id])) {
      plain.push_back(id);
      plain_mask_.allow(id);
    } else {
      other.push_back(id);
    }
  }
  std::vector<TokenId> all = plain;
  all.insert(all.end(), other.begin(), other.end());
  plain_ = TokenTree::make(std::move(plain), tokens_);
  other_ = TokenTree::make(std::move(other), tokens_);
  all_ = TokenTree::make(std::move(all), tokens_);
  in_strings_ = StringTokens(tokens_);
}

}  // namespace kvik::constrain
