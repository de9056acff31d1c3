#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "constrain/grammar_matcher.h"

namespace kvik::constrain {

// Tests whether a grammar accepts a whole text, and finds the first byte that it rejects.
class GrammarTexts {
 public:
  explicit GrammarTexts(Grammar grammar) {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    constraint_ = CompiledGrammar::make(std::move(grammar),
                                        std::make_shared<VocabularyTrie>(std::move(bytes)));
  }

  bool has(std::string_view text) const {
    GrammarMatcher matcher = constraint_->start();
    const auto n_read = matcher.accept_bytes(text);
    CHECK(n_read.has_value());
    const auto is_complete = matcher.is_complete();
    CHECK(is_complete.has_value());
    return *n_read == text.size() && *is_complete;
  }
  // Returns the length of the longest prefix of `text` that begins some text of the grammar.
  size_t n_read(std::string_view text) const {
    GrammarMatcher matcher = constraint_->start();
    const auto n_read = matcher.accept_bytes(text);
    CHECK(n_read.has_value());
    return *n_read;
  }

 private:
  std::shared_ptr<CompiledGrammar> constraint_;
};

}  // namespace kvik::constrain
