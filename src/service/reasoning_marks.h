#pragma once

#include <string_view>

namespace kvik {

// The marks that a model writes before and after its reasoning.
struct ReasoningMarks {
  std::string_view begin_reasoning;
  std::string_view end_reasoning;
};

inline constexpr ReasoningMarks kThinkTags = {"<think>", "</think>"};

// Returns the reasoning marks that occur in the template; kThinkTags if it contains no known ones.
const ReasoningMarks& find_reasoning_marks(std::string_view chat_template);

}  // namespace kvik
