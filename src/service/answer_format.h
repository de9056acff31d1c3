#pragma once

#include <string_view>

namespace kvik {

// How a model writes the parts of an answer.
struct AnswerFormat {
  std::string_view begin_thought;
  std::string_view end_thought;
};

inline constexpr AnswerFormat kThinkTags = {"<think>", "</think>"};

}  // namespace kvik
