#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/answer_parts.h"
#include "service/chat_format.h"
#include "service/choice_stream.h"
#include "support/tiny_service.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

uint32_t n_reasoning_tokens(AnswerBegin begin, const std::vector<std::string>& tokens) {
  AnswerSplitter splitter(begin);
  std::vector<uint32_t> ends;
  for (const std::string& token : tokens) {
    splitter.push(token);
    ends.push_back(static_cast<uint32_t>((ends.empty() ? 0 : ends.back()) + token.size()));
  }
  return count_reasoning_tokens(splitter.reasoning(), ends);
}

TEST(ReasoningTokens, counts_reasoning_and_its_marks) {
  EXPECT_EQ(
      n_reasoning_tokens(AnswerBegin::kText, {"<think>", "a", " b", "</think>", "\n", "c", "d"}),
      4u);
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kReasoning, {"a", " b", "</think>", "c"}), 3u);
}

TEST(ReasoningTokens, counts_marks_of_several_tokens_whole) {
  EXPECT_EQ(
      n_reasoning_tokens(AnswerBegin::kText, {"<", "think", ">", "a", "</", "think", ">", "c"}),
      7u);
}

TEST(ReasoningTokens, whitespace_around_reasoning_is_not_counted) {
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText,
                               {"\n", " ", "<th", "ink>", "a", "</think>", " ", "\n"}),
            4u);
}

TEST(ReasoningTokens, an_answer_without_reasoning_has_none) {
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText, {"<", "th", "ree", "<think>", "a", "</think>"}),
            0u);
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText, {"<", "th"}), 0u);
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText, {}), 0u);
}

TEST(ReasoningTokens, unfinished_reasoning_is_the_whole_answer) {
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText, {"<think>", "a", "</thin"}), 3u);
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kReasoning, {"", "\u00e9", "<think>"}), 3u);
}

TEST(ReasoningTokens, a_token_that_holds_both_counts) {
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText, {"<think></think>c", "d"}), 1u);
  EXPECT_EQ(n_reasoning_tokens(AnswerBegin::kText, {"\n<think>a", "b</think>c", "d"}), 2u);
}

// Returns the usage of a choice that generates this text, one token per byte.
Usage usage_of(const ServiceRig& rig, const std::string& text, const OutputOptions& output) {
  const auto sink = std::make_shared<RecordingCompletionSink>();
  const auto state = std::make_shared<CompletionState>();
  state->sink = sink;
  state->n_running = 1;
  ChoiceStream stream(rig.tokenizer(), state,
                      {.output = std::make_shared<const OutputOptions>(output)});
  for (const char byte : text) {
    TokenEvent event;
    event.id = byte_token(byte);
    if (stream.on_token(event) == EventSink::Verdict::kStop) break;
  }
  stream.on_finish(FinishReason::kStop, {});
  return sink->usages().at(0);
}

TEST(ReasoningCount, are_counted_in_tokens_whatever_becomes_of_the_chunks) {
  const ServiceRig rig;
  const std::string reasoning_text = "<think>\u00e9\u20ac a</think>";
  OutputOptions output;
  output.answer_begin = AnswerBegin::kText;
  const Usage usage = usage_of(rig, "\n" + reasoning_text + "\nyes", output);
  EXPECT_EQ(usage.reasoning_tokens, reasoning_text.size());
  EXPECT_EQ(usage.completion_tokens, reasoning_text.size() + 5);
}

// Returns whether the model may begin reasoning after a prompt of that template.
bool may_reason(const char* source, const ReasoningOptions& wish = {}) {
  ChatRequest request;
  request.messages = {text_message("user", "a")};
  request.thinking = wish;
  const auto prompt = ChatFormat(ToyTokenizer(source)).prompt(request);
  EXPECT_TRUE(prompt.has_value());
  return prompt && prompt->answer_syntax.may_reason;
}

TEST(ReasoningCount, may_follow_if_the_template_neither_opens_nor_closes_it) {
  const std::string qwen =
      "{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}"
      "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
      "{% endif %}";
  EXPECT_TRUE(may_reason(qwen.c_str()));
  ReasoningOptions not_at_all, no_effort;
  not_at_all.is_enabled = false;
  no_effort.effort = "none";
  EXPECT_FALSE(may_reason(qwen.c_str(), not_at_all));
  EXPECT_FALSE(may_reason(qwen.c_str(), no_effort));
  EXPECT_FALSE(may_reason((qwen + "<think>\n").c_str()));
  EXPECT_FALSE(may_reason("{% for m in messages %}{{ m.content }}{% endfor %}"));
  // The template's source has the closing tag, though its output does not.
  EXPECT_TRUE(may_reason("{{ messages[0].content }}{% if false %}</think>{% endif %}"));
}

// The text of a client is no part of the answer, whatever tags it contains.
TEST(ReasoningCount, tags_in_a_clients_messages_neither_begin_nor_end_one) {
  const std::string source =
      "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
      "{% if opens %}<think>\n{% endif %}{# </think> #}{% if false %}</think>{% endif %}";
  const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
  for (const char* text : {"a", "</think>", "<think>", "<think>\n", "a</think>b", "<think>a",
                           "x<think>\na</think>\n", "</think>\n\n"}) {
    for (const bool opens : {false, true}) {
      ChatRequest request;
      request.messages = {text_message("system", text), text_message("user", text)};
      request.kwargs = {{"opens", {opens}}};
      const auto prompt = ChatFormat(ToyTokenizer(source)).prompt(request);
      ASSERT_TRUE(prompt.has_value());
      EXPECT_EQ(prompt->answer_begin, opens ? AnswerBegin::kReasoning : AnswerBegin::kText) << text;
      EXPECT_EQ(prompt->answer_syntax.may_reason, !opens) << text;
      AnswerSplitter splitter(prompt->answer_begin, prompt->answer_syntax);
      std::string reasoning, words;
      for (const AnswerPart& part : splitter.push_last("one</think>two")) {
        (part.kind == AnswerPart::Kind::kReasoning ? reasoning : words) += part.text;
      }
      EXPECT_EQ(reasoning, opens ? "one" : "") << text;
      EXPECT_EQ(words, opens ? "two" : "one</think>two") << text;
    }
    // A template without a mark for the answer ends with the client's text.
    ChatRequest request;
    request.messages = {text_message("user", text)};
    const auto prompt = ChatFormat(ToyTokenizer(plain + "{# </think> #}")).prompt(request);
    ASSERT_TRUE(prompt.has_value());
    EXPECT_EQ(prompt->answer_begin, AnswerBegin::kText) << text;
  }
}

TEST(ReasoningCount, is_not_counted_without_a_request) {
  const ServiceRig rig;
  EXPECT_EQ(usage_of(rig, "<think>a</think>", {}).reasoning_tokens, 0u);
}

TEST(ReasoningCount, ended_by_a_stop_string_counts_completely) {
  const ServiceRig rig;
  OutputOptions output;
  output.stop = {"STOP"};
  output.answer_begin = AnswerBegin::kReasoning;
  const Usage usage = usage_of(rig, "ab STOP cd", output);
  EXPECT_EQ(usage.completion_tokens, 7u);
  EXPECT_EQ(usage.reasoning_tokens, 7u);
}

TEST(ReasoningCount, that_ends_within_a_stop_string_is_counted_up_to_there) {
  const ServiceRig rig;
  OutputOptions output;
  output.stop = {"</think>cd"};
  output.answer_begin = AnswerBegin::kReasoning;
  const Usage usage = usage_of(rig, "ab</think>cdef", output);
  EXPECT_EQ(usage.completion_tokens, 12u);
  EXPECT_EQ(usage.reasoning_tokens, 10u);
}

TEST(ReasoningCount, of_all_choices_are_added) {
  ServiceRig rig;
  CompletionRequest request = letters_request(10);  // only letters, so the reasoning never ends
  request.n = 3;
  request.output.answer_begin = AnswerBegin::kReasoning;
  EXPECT_EQ(rig.answer(request).usage.reasoning_tokens, 30u);
  request.output.answer_begin = AnswerBegin::kText;
  EXPECT_EQ(rig.answer(request).usage.reasoning_tokens, 0u);
}

}  // namespace
}  // namespace kvik
