#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "service/history/answer_memory.h"
#include "service/message.h"
#include "service/reasoning_marks.h"
#include "template/jinja/text.h"

namespace kvik {

// The answer to which an assistant message of a conversation belongs.
struct KnownAnswer {
  // null: unknown, or its reasoning is other than that of the message
  std::shared_ptr<const RememberedAnswer> answer;
  bool has_more = false;  // it has reasoning, and the message has none
};
// In the order of the assistant messages.
using KnownAnswers = std::vector<KnownAnswer>;

// A conversation as far as AnswerMemory knows it.
struct KnownConversation {
  KnownAnswers answers;
  ConversationKey key{};  // of all messages
};
KnownConversation find_answers(AnswerMemory& memory, const AnswerOwner& owner,
                               std::span<const Message> messages);

// Adds the reasoning that a message of a known answer lacks. The template decides whether it is
// rendered.
void add_reasoning(std::span<Message> messages, const KnownAnswers& answers);

// A range of a rendered conversation, in bytes, that is a known answer.
struct KnownRange {
  size_t begin = 0, end = 0;
  size_t answer = 0;  // index
};

// The marks that a template writes around answers.
struct AnswerLayout {
  std::string header;  // before each answer; empty: there is none
  // Without a header: marks that end what is before an answer, such as Mistral's [/INST].
  std::vector<std::string> befores = {};
  // In harmony format an answer is several messages, each with the header.
  bool has_channels = false;
  std::vector<std::string> ends;  // texts of the tokens that may end an answer
  const ReasoningMarks* reasoning_marks = &kThinkTags;
};

// Finds the answers of the messages in the rendered conversation, which ends with a generation
// prompt; ascending. An answer counts only if its range contains this message and nothing else: the
// reasoning between its marks, then the text. The texts of the messages that follow must come after
// it. No answer counts if the number of headers that the template wrote is not that of the answers
// plus one, or, without a header, the number of end marks is not that of the answers. In harmony
// format, consecutive messages of the assistant count as one header.
std::vector<KnownRange> known_ranges(const jinja::Text& text, const AnswerLayout& layout,
                                     std::span<const Message> messages,
                                     const KnownAnswers& answers);

}  // namespace kvik
