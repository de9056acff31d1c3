#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_id.h"
#include "constrain/vocabulary/vocabulary_trie.h"
#include "service/forms/form_lead.h"
#include "text/tokenizer.h"

namespace kvik {

// What forms of answers need to know of a vocabulary. Made once; immutable: any thread.
class FormVocabulary {
 public:
  // The tokenizer is borrowed. Of the special tokens those in `marks` stand for their text; those
  // that end an answer never do.
  explicit FormVocabulary(const Tokenizer& tokenizer, const std::vector<TokenId>& marks = {});

  // An estimate of the bytes of one for vocabularies of 32,000 to 262,144 tokens, rounded up.
  static uint64_t most_bytes(uint32_t n_vocab) { return uint64_t{n_vocab} * kTokenBytes; }

  const std::shared_ptr<const constrain::VocabularyTrie>& trie() const { return trie_; }
  uint32_t n_vocab() const { return trie_->n_vocab(); }

  // The tokens that a text is cut into wherever it stands, and whatever follows it: the last ones,
  // which might become one with what follows, are left out.
  std::vector<TokenId> tokens_of(std::string_view text) const;

  // What stands before the form of an answer that is written so (AnswerForm::brings_header).
  FormLead lead(AnswerBegin begin, const AnswerSyntax& syntax, bool brings_header = false) const;
  // What a token of a thought says.
  std::string piece(TokenId token, const FormLead& lead) const;
  // Tokens that may say more than the end of a thought that ends with that mark.
  const std::vector<TokenId>& beyond_thoughts(std::string_view end_thought) const;

 private:
  // The last bytes of all marks that end thoughts.
  static constexpr std::string_view kLastBytes = ">]";
  static constexpr uint64_t kTokenBytes = 200;

  bool begins_longer_token(std::string_view text) const;
  std::vector<TokenId> marks(std::string_view text) const;

  const Tokenizer& tokenizer_;
  const bool has_marks_;
  std::shared_ptr<const constrain::VocabularyTrie> trie_;  // shared with compiled forms
  std::array<std::vector<TokenId>, kLastBytes.size()> beyond_thoughts_;  // by the last byte
};

}  // namespace kvik
