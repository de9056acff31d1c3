#include "service/answer_parts.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;

// Returns the parts of a text that arrives in pieces of n bytes.
Parts parts_of(AnswerBegin begin, const std::string& text, size_t n) {
  AnswerSplitter splitter(begin);
  Parts all;
  for (size_t at = 0; at < text.size(); at += n) {
    for (AnswerPart& part : splitter.push(text.substr(at, n))) append(all, std::move(part));
  }
  for (AnswerPart& part : splitter.push_last("")) append(all, std::move(part));
  return all;
}

TEST(AnswerSplitter, however_the_text_comes_in_pieces_the_parts_are_the_same) {
  const std::string text = " <think>one </ two</think>\n three <think>";
  for (size_t n = 1; n <= text.size(); ++n) {
    EXPECT_EQ(parts_of(AnswerBegin::kText, text, n),
              Parts({{Kind::kReasoning, "one </ two"}, {Kind::kText, "three <think>"}}));
  }
}

TEST(AnswerSplitter, reasoning_that_the_template_opened_needs_no_mark) {
  for (const size_t n : {1, 3, 20}) {
    EXPECT_EQ(parts_of(AnswerBegin::kReasoning, "a</think>b", n),
              Parts({{Kind::kReasoning, "a"}, {Kind::kText, "b"}}));
  }
}

TEST(AnswerSplitter, what_was_held_back_comes_at_the_end) {
  EXPECT_EQ(parts_of(AnswerBegin::kText, " <thin", 2), Parts({{Kind::kText, " <thin"}}));
  EXPECT_EQ(parts_of(AnswerBegin::kReasoning, "a</thin", 2),
            Parts({{Kind::kReasoning, "a</thin"}}));
  EXPECT_EQ(parts_of(AnswerBegin::kReasoning, "</think> \n", 2), Parts());
}

}  // namespace
}  // namespace kvik
