#include "service/structured_output/reasoning_budget.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/chat_format.h"
#include "support/tiny_service.h"
#include "support/toy_tokenizer.h"

namespace kvik {
namespace {

constexpr uint32_t kVocab = 500;

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

ReasoningBudget budget_of(const Tokenizer& tokenizer, AnswerBegin begin, uint64_t n_max,
                          std::string_view message = {}) {
  OutputOptions output;
  output.answer_begin = begin;
  output.reasoning_budget = n_max;
  return ReasoningBudget(tokenizer, reasoning_rules(tokenizer, output, {.message = message}));
}

// Returns the tokens that the constraint forces one after the other, as text.
std::string forced_text(ReasoningBudget& budget) {
  std::string text;
  std::vector<TokenId> tokens;
  for (budget.forced(1, tokens); !tokens.empty(); budget.forced(1, tokens)) {
    TokenBitmask mask(kVocab);
    budget.fill_mask(mask);
    for (TokenId token = 0; token < kVocab; ++token) {
      EXPECT_EQ(mask.allows(token), token == tokens.front());
      EXPECT_EQ(budget.allows(token), token == tokens.front());
    }
    EXPECT_EQ(budget.end(), Constraint::End::kNotYet);
    text.push_back(static_cast<char>(tokens.front()));
    budget.advance(tokens.front());
    tokens.clear();
  }
  return text;
}

void feed(ReasoningBudget& budget, std::string_view text) {
  for (const TokenId token : bytes_of(text)) {
    EXPECT_TRUE(budget.allows(token));
    budget.advance(token);
  }
}

TEST(ReasoningBudget, forces_the_end_mark_at_the_limit) {
  const ToyTokenizer tokenizer("");
  for (const uint32_t n_max : {0u, 1u, 5u, 100u}) {
    ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kReasoning, n_max);
    feed(budget, std::string(n_max, 'x'));
    EXPECT_EQ(forced_text(budget), "</think>") << n_max;
    EXPECT_EQ(budget.end(), Constraint::End::kMay);
  }
}

TEST(ReasoningBudget, the_message_precedes_the_end_mark) {
  const ToyTokenizer tokenizer("");
  ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kReasoning, 2, "\nEnough.\n");
  feed(budget, "xy");
  EXPECT_EQ(forced_text(budget), "\nEnough.\n</think>");
}

TEST(ReasoningBudget, nothing_is_forced_if_the_reasoning_ends_by_itself) {
  const ToyTokenizer tokenizer("");
  ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kReasoning, 20);
  feed(budget, "why?</think>" + std::string(50, 'x'));
  EXPECT_EQ(forced_text(budget), "");
}

TEST(ReasoningBudget, reasoning_that_the_model_opens_counts) {
  const ToyTokenizer tokenizer("");
  for (const std::string begin : {"<think>", "\n <think>"}) {
    ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kText, 3);
    feed(budget, begin + "xyz");
    EXPECT_EQ(forced_text(budget), "</think>") << begin;
  }
}

TEST(ReasoningBudget, an_answer_without_reasoning_is_free) {
  const ToyTokenizer tokenizer("");
  for (const std::string text : {"yes", " <thin air>", "<", "x<think>aaaaaaaa"}) {
    ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kText, 3);
    Constraint::Next next;
    for (const TokenId token : bytes_of(text)) {
      budget.try_advance(Constraint::Effort::kSmall, token, next, 8);
      EXPECT_EQ(next.end, Constraint::End::kMay);
      EXPECT_TRUE(next.forced.empty());
    }
    EXPECT_EQ(next.is_free, text != "<") << text;
  }
}

TEST(ReasoningBudget, is_free_after_the_reasoning_only) {
  const ToyTokenizer tokenizer("");
  ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kReasoning, 2);
  Constraint::Next next;
  for (const TokenId token : bytes_of("xy</think>")) {
    EXPECT_FALSE(next.is_free);
    budget.try_advance(Constraint::Effort::kSmall, token, next, 4);
  }
  EXPECT_TRUE(next.is_free);
}

TEST(ReasoningBudget, rolls_back_and_forks) {
  const ToyTokenizer tokenizer("");
  ReasoningBudget budget = budget_of(tokenizer, AnswerBegin::kReasoning, 4);
  feed(budget, "xyz");
  const auto fork = budget.fork();
  feed(budget, "w</");
  budget.roll_back(3);
  EXPECT_TRUE(budget.allows('q'));
  feed(budget, "q");
  EXPECT_FALSE(budget.allows('q'));
  EXPECT_TRUE(fork->allows('q'));
}

TEST(ReasoningBudget, harmony_goes_on_with_the_final_message) {
  const ToyTokenizer tokenizer("");
  OutputOptions output;
  output.answer_begin = AnswerBegin::kText;
  output.answer_syntax.has_channels = true;
  output.reasoning_budget = 2;
  ReasoningBudget budget(tokenizer, reasoning_rules(tokenizer, output, {}));
  feed(budget, "<|channel|>analysis<|message|>xy");
  EXPECT_EQ(forced_text(budget), "<|end|><|start|>assistant<|channel|>final<|message|>");
}

// The answers of a random model hold no more reasoning than allowed, whatever the seed.
TEST(ReasoningBudget, bounds_the_reasoning_of_generated_answers) {
  ServiceRig rig;
  for (uint32_t i = 0; i < 60; ++i) {
    CompletionRequest request = letters_request(40, i);
    request.output.answer_begin = AnswerBegin::kReasoning;
    request.output.reasoning_budget = i % 20;
    request.n = 2;
    const Answered answered = rig.answer(request);
    for (const Choice& choice : answered.choices) {
      EXPECT_EQ(choice.text.find("</think>"), i % 20) << choice.text;
      EXPECT_EQ(choice.text.size(), 40u);
      EXPECT_EQ(choice.text.rfind("</think>"), i % 20) << choice.text;
    }
    EXPECT_EQ(answered.usage.reasoning_tokens, 2 * (i % 20 + 8));
  }
}

// The answer's own constraint applies after the reasoning.
TEST(ReasoningBudget, a_constrained_answer_follows) {
  ServiceRig rig;
  for (uint32_t i = 0; i < 20; ++i) {
    CompletionRequest request = letters_request(60, i);
    request.output.answer_begin = AnswerBegin::kReasoning;
    request.output.reasoning_budget = i;
    request.form = StructuredOutput{.kind = StructuredOutput::Kind::kRegex, .text = "[a-c]{3}:ok"};
    request.engine.sampling.logit_bias = {};
    const std::string text = rig.answer(request).choices[0].text;
    ASSERT_TRUE(text.ends_with(":ok")) << text;
    EXPECT_EQ(text.find("</think>"), text.size() - 6 - 8) << text;
  }
}

std::optional<uint64_t> budget_in(const ChatFormat& format, const ReasoningOptions& wish) {
  ChatRequest request;
  request.messages = {text_message("user", "a")};
  request.thinking = wish;
  const auto prompt = format.prompt(request);
  EXPECT_TRUE(prompt.has_value());
  return prompt ? prompt->reasoning_budget : std::nullopt;
}

TEST(ReasoningBudget, comes_from_the_request_the_effort_or_the_server) {
  const ToyTokenizer plain("{{ messages[0].content }}{# </think> #}");
  const ToyTokenizer with_effort("{{ messages[0].content }}{{ reasoning_effort }}");
  const ChatFormat unlimited(plain), limited(plain, {.reasoning_budget = 77});
  EXPECT_EQ(budget_in(unlimited, {}), std::nullopt);
  EXPECT_EQ(budget_in(limited, {}), 77u);
  ReasoningOptions low;
  low.effort = "low";
  EXPECT_EQ(budget_in(limited, low), 1024u);
  EXPECT_EQ(budget_in(ChatFormat(with_effort), low), std::nullopt);
  low.budget_tokens = 5;
  EXPECT_EQ(budget_in(limited, low), 5u);
}

}  // namespace
}  // namespace kvik
