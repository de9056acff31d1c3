#include "service/structured_output/grammar_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/check.h"
#include "service/structured_output/mark_tokens.h"

namespace kvik {
namespace {

using Tree = constrain::TokenTree;

// Returns whether a token of the tree begins with the text and is longer.
bool goes_on(const Tree& tree, std::string_view text) {
  uint32_t node = 0;  // first node of this level that has not been examined
  uint32_t end = static_cast<uint32_t>(tree.nodes.size());
  for (const char byte : text) {
    while (node < end && tree.nodes[node].byte != static_cast<uint8_t>(byte))
      node = tree.nodes[node].end;
    if (node >= end) return false;
    end = tree.nodes[node].end;
    ++node;
  }
  return node < end;
}

// Returns the same vocabulary in which these special tokens are text.
std::shared_ptr<const constrain::VocabularyTrie> with_marks(const Tokenizer& tokenizer,
                                                            const constrain::VocabularyTrie& plain,
                                                            const std::vector<TokenId>& marks) {
  std::vector<std::string> texts(plain.n_vocab());
  for (TokenId token = 0; token < texts.size(); ++token) texts[token] = plain.bytes(token);
  const auto ends = tokenizer.end_tokens();
  for (const TokenId mark : marks) {
    if (mark >= texts.size() || std::ranges::find(ends, mark) != ends.end()) continue;
    texts[mark] = tokenizer.piece(mark, Tokenizer::Special::kShow);
  }
  return std::make_shared<const constrain::VocabularyTrie>(std::move(texts));
}

}  // namespace

GrammarVocabulary::GrammarVocabulary(const Tokenizer& tokenizer, const std::vector<TokenId>& marks)
    : tokenizer_(tokenizer),
      has_marks_(!marks.empty()),
      trie_(std::make_shared<constrain::VocabularyTrie>(tokenizer)) {
  if (has_marks_) trie_ = with_marks(tokenizer, *trie_, marks);
  for (TokenId token = 0; token < n_vocab(); ++token) {
    const std::string text = tokenizer.piece(token, Tokenizer::Special::kHide);
    for (size_t i = 0; i < kLastBytes.size() && !text.empty(); ++i) {
      if (text.find(kLastBytes[i]) < text.size() - 1)
        tokens_past_reasoning_end_[i].push_back(token);
    }
  }
}

// In harmony an answer consists of several messages: the first is reasoning, and the form applies
// to the last.
AnswerPreamble GrammarVocabulary::lead(AnswerBegin begin, const AnswerSyntax& syntax,
                                       bool includes_header) const {
  AnswerPreamble lead{.shown = syntax.shown_tokens};
  if (!syntax.has_channels) {
    const bool is_offered = begin == AnswerBegin::kText && syntax.may_reason;
    if (is_offered) lead.offered = mark_tokens(tokenizer_, syntax.reasoning_marks->begin_reasoning);
    // If the mark is not a single special token, the mask would allow its first token, which may be
    // an ordinary letter, as the beginning of reasoning.
    const bool is_own =
        !lead.offered.empty() && (tokenizer_.kind(lead.offered.front()) == TokenKind::kControl ||
                                  tokenizer_.kind(lead.offered.front()) == TokenKind::kUserDefined);
    if (!is_own) lead.offered.clear();
    if (begin == AnswerBegin::kReasoning || !lead.offered.empty()) {
      lead.end_reasoning = syntax.reasoning_marks->end_reasoning;
    }
    return lead;
  }
  lead.opening = mark_tokens(tokenizer_, kReasoningHeader);
  lead.end_reasoning = kMessageEnd;
  lead.closing =
      mark_tokens(tokenizer_, includes_header ? std::string(kNextMessage)
                                              : fmt::format("{}{}", kNextMessage, kFinalHeader));
  for (const TokenId token : lead.shown) {
    if (piece(token, lead) != kMessageEnd) lead.forbidden_in_reasoning.push_back(token);
  }
  return lead;
}

std::string GrammarVocabulary::piece(TokenId token, const AnswerPreamble& lead) const {
  return visible_piece(tokenizer_, token, lead.shown);
}

const std::vector<TokenId>& GrammarVocabulary::tokens_past_reasoning_end(
    std::string_view end_reasoning) const {
  const size_t i = kLastBytes.find(end_reasoning.back());
  CHECK(i != kLastBytes.npos);
  return tokens_past_reasoning_end_[i];
}

bool GrammarVocabulary::begins_longer_token(std::string_view text) const {
  return goes_on(trie_->plain(), text) || goes_on(trie_->other(), text);
}

std::vector<TokenId> GrammarVocabulary::tokens_of(std::string_view text) const {
  // If the tokenizer adds a blank before the first word of a text, it adds it before this line
  // break.
  const std::string_view before = tokenizer_.strips_leading_space() ? "\n" : "";
  const std::vector<TokenId> all = tokenizer_.tokenize(
      std::string(before) + std::string(text), {.add_bos = false, .parse_special = has_marks_});
  // Walk back from the end to find the tokens that consist of the text alone.
  size_t begin = text.size();
  size_t first = all.size();
  size_t n_kept = all.size();
  while (begin > 0 && first > 0) {
    const std::string& bytes = trie_->bytes(all[first - 1]);
    if (bytes.empty() || !text.substr(0, begin).ends_with(bytes)) return {};
    begin -= bytes.size();
    --first;
    if (begins_longer_token(text.substr(begin))) n_kept = first;
  }
  if (begin > 0 || n_kept <= first) return {};
  return {all.begin() + static_cast<ptrdiff_t>(first),
          all.begin() + static_cast<ptrdiff_t>(n_kept)};
}

}  // namespace kvik
