#include "service/answer_format.h"

#include <array>

namespace kvik {
namespace {

struct KnownThought {
  AnswerFormat format;
  std::string_view telltale;
};

constexpr std::array kKnown = {
    KnownThought{{"[THINK]", "[/THINK]"}, "[THINK]"},                                // Mistral
    KnownThought{{"<seed:think>", "</seed:think>"}, "<seed:think>"},                 // Seed
    KnownThought{{"<|channel>thought\n", "<channel|>"}, "<|channel>"},               // Gemma 4
    KnownThought{{"<|START_THINKING|>", "<|END_THINKING|>"}, "<|START_THINKING|>"},  // Cohere
};

}  // namespace

const AnswerFormat& find_thought_format(std::string_view chat_template) {
  for (const KnownThought& known : kKnown) {
    if (chat_template.contains(known.telltale)) return known.format;
  }
  return kThinkTags;
}

}  // namespace kvik
