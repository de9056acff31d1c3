#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "service/answer_parts.h"

namespace kvik {

// Counts the tokens of a growing answer that lie in its thought, the marks among them. A token with
// a mark in it counts whole, whatever else it says.
class ThoughtCounter {
 public:
  explicit ThoughtCounter(AnswerBegin begin, AnswerSyntax syntax = {})
      : may_come_again_(syntax.has_channels), splitter_(begin, without_calls(std::move(syntax))) {}

  // What one more token says; empty where it ends within a character.
  void push(std::string_view text);

  uint32_t n_tokens() const { return n_tokens_; }

 private:
  static AnswerSyntax without_calls(AnswerSyntax syntax) {
    syntax.calls.clear();
    syntax.reads_bare_calls = false;
    return syntax;
  }

  bool may_come_again_;  // a thought behind what was said
  AnswerSplitter splitter_;
  uint32_t n_held_ = 0;  // tokens that may turn out to be the opening mark's
  uint32_t n_tokens_ = 0;
};

}  // namespace kvik
