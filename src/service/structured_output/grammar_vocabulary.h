#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "constrain/vocabulary/vocabulary_trie.h"
#include "service/structured_output/answer_preamble.h"
#include "text/tokenizer.h"

namespace kvik {

// The vocabulary data that forms of answers need. Immutable after construction; any thread.
class GrammarVocabulary {
 public:
  // Borrows the tokenizer. The special tokens in `marks` are matched as their text, except for
  // tokens that end an answer.
  explicit GrammarVocabulary(const Tokenizer& tokenizer, const std::vector<TokenId>& marks = {});

  // Returns an estimate, rounded up, of the memory of one vocabulary in bytes; valid for 32,000 to
  // 262,144 tokens.
  static uint64_t max_bytes(uint32_t n_vocab) { return uint64_t{n_vocab} * kTokenBytes; }

  const std::shared_ptr<const constrain::VocabularyTrie>& trie() const { return trie_; }
  uint32_t n_vocab() const { return trie_->n_vocab(); }

  // Returns the tokens of a text, as far as they do not depend on the text before and after it. The
  // last tokens are omitted if they might merge with what follows.
  std::vector<TokenId> tokens_of(std::string_view text) const;

  // Returns the lead of an answer in this syntax. `includes_header`:
  // StructuredOutput::includes_header.
  AnswerPreamble lead(AnswerBegin begin, const AnswerSyntax& syntax,
                      bool includes_header = false) const;
  // Returns the visible text of a token in the reasoning.
  std::string piece(TokenId token, const AnswerPreamble& lead) const;
  // Returns the tokens that may contain text after this end mark of reasoning.
  const std::vector<TokenId>& tokens_past_reasoning_end(std::string_view end_reasoning) const;

 private:
  // The last bytes of all end marks of reasoning.
  static constexpr std::string_view kLastBytes = ">]";
  static constexpr uint64_t kTokenBytes = 200;

  bool begins_longer_token(std::string_view text) const;

  const Tokenizer& tokenizer_;
  const bool has_marks_;
  std::shared_ptr<const constrain::VocabularyTrie> trie_;  // shared with compiled forms
  // by the last byte of the end mark
  std::array<std::vector<TokenId>, kLastBytes.size()> tokens_past_reasoning_end_;
};

}  // namespace kvik
