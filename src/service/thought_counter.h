#pragma once

#include <cstdint>
#include <string_view>

#include "service/answer_parts.h"

namespace kvik {

// Counts the tokens of a growing answer that lie in its thought, the marks among them. A token with
// a mark in it counts whole, whatever else it says.
class ThoughtCounter {
 public:
  explicit ThoughtCounter(AnswerBegin begin) : splitter_(begin) {}

  // What one more token says; empty where it ends within a character.
  void push(std::string_view text);

  uint32_t n_tokens() const { return n_tokens_; }

 private:
  AnswerSplitter splitter_;
  uint32_t n_held_ = 0;  // tokens that may turn out to be the opening mark's
  uint32_t n_tokens_ = 0;
};

}  // namespace kvik
