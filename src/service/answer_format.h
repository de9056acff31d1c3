#pragma once

#include <string_view>

namespace kvik {

// The marks that a model writes before and after its reasoning.
struct AnswerFormat {
  std::string_view begin_thought;
  std::string_view end_thought;
};

inline constexpr AnswerFormat kThinkTags = {"<think>", "</think>"};

// Returns the reasoning marks that occur in the template; kThinkTags if it contains no known ones.
const AnswerFormat& find_thought_format(std::string_view chat_template);

}  // namespace kvik
