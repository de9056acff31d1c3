#include "service/reasoning_marks.h"

#include <array>

#include "service/reasoning_beginnings.h"

namespace kvik {
namespace {

struct KnownReasoningMarks {
  ReasoningMarks format;
  std::string_view marker;
};

constexpr std::array kKnown = {
    KnownReasoningMarks{{"[THINK]", "[/THINK]"}, "[THINK]"},                   // Mistral
    KnownReasoningMarks{{"<seed:think>", "</seed:think>"}, "<seed:think>"},    // Seed
    KnownReasoningMarks{{"<mm:think>", "</mm:think>"}, "<mm:think>"},          // MiniMax M3
    KnownReasoningMarks{{"<|channel>thought\n", "<channel|>"}, "<|channel>"},  // Gemma 4
    KnownReasoningMarks{{"<|START_THINKING|>", "<|END_THINKING|>"},
                        "<|START_THINKING|>"},  // Cohere
};

}  // namespace

const ReasoningMarks& find_reasoning_marks(std::string_view chat_template) {
  for (const KnownReasoningMarks& known : kKnown) {
    if (chat_template.contains(known.marker)) return known.format;
  }
  return kThinkTags;
}

std::vector<std::string_view> reasoning_beginnings() {
  std::vector<std::string_view> all = {kThinkTags.begin_reasoning};
  for (const KnownReasoningMarks& known : kKnown) all.push_back(known.format.begin_reasoning);
  return all;
}

}  // namespace kvik
