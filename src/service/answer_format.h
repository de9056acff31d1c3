#pragma once

#include <string_view>

namespace kvik {

// The marks between which a model writes what it thinks.
struct AnswerFormat {
  std::string_view begin_thought;
  std::string_view end_thought;
};

inline constexpr AnswerFormat kThinkTags = {"<think>", "</think>"};

// The marks that a template writes; kThinkTags where it writes none that are known.
const AnswerFormat& find_thought_format(std::string_view chat_template);

}  // namespace kvik
