#include "service/answer_size.h"

#include <gtest/gtest.h>

#include <string>

#include "service/request_bounds.h"

namespace kvik {
namespace {

std::string refused_by(const AnswerSize& size, const CompletionRequest& request = {}) {
  const auto checked = check_answer_size(size, request);
  return checked ? "" : checked.error().param;
}

TEST(AnswerSize, prompts_choices_and_entries_multiply) {
  CompletionRequest request;
  request.n = 8;
  request.output.n_prompt_logprobs = 20;
  const AnswerSize one = answer_size(request, 990, 1);
  EXPECT_EQ(one.n_sequences, 8u);
  EXPECT_EQ(one.n_prompt_copies, 8u * 990);
  EXPECT_EQ(one.n_echoed, 0u);
  EXPECT_EQ(one.n_entries, 8u * 990 * 21);
  EXPECT_EQ(refused_by(one, request), "") << "one prompt of these is a fair question";
  AnswerSize all;
  for (int i = 0; i < 32; ++i) all += one;
  EXPECT_EQ(refused_by(all, request), "prompt_logprobs");
}

TEST(AnswerSize, an_echo_has_entries_of_the_prompt_and_of_what_is_new) {
  CompletionRequest request;
  request.n = 2;
  request.engine.n_logprobs = 4;
  EXPECT_EQ(answer_size(request, 100, 10).n_entries, 2u * 10 * 5);
  request.output.echo = true;
  EXPECT_EQ(answer_size(request, 100, 10).n_entries, 2u * 110 * 5);
  EXPECT_EQ(answer_size(request, 100, 10).n_echoed, 200u);
  request.output.n_prompt_logprobs = 0;
  EXPECT_EQ(answer_size(request, 100, 10).n_entries, 2u * (110 * 5 + 100));
}

TEST(AnswerSize, each_bound_names_its_field) {
  using Bounds = RequestBounds;
  EXPECT_EQ(refused_by({.n_sequences = Bounds::kSequences}), "");
  EXPECT_EQ(refused_by({.n_sequences = Bounds::kSequences + 1}), "n");
  EXPECT_EQ(refused_by({.n_prompt_copies = Bounds::kPromptCopies + 1}), "n");
  EXPECT_EQ(refused_by({.n_echoed = Bounds::kEchoedTokens + 1}), "echo");
  EXPECT_EQ(refused_by({.n_entries = Bounds::kLogprobEntries}), "");
  EXPECT_EQ(refused_by({.n_entries = Bounds::kLogprobEntries + 1}), "logprobs");
}

TEST(AnswerSize, without_a_limit_there_are_as_many_tokens_as_may_have_entries) {
  CompletionRequest request;
  EXPECT_EQ(tokens_with_logprobs(request, 1), UINT64_MAX);
  request.engine.n_logprobs = 20;
  request.n = 4;
  const uint64_t most = tokens_with_logprobs(request, 2);
  AnswerSize size = answer_size(request, 0, most);
  size += size;
  EXPECT_EQ(refused_by(size, request), "");
  AnswerSize more = answer_size(request, 0, most + 1);
  more += more;
  EXPECT_EQ(refused_by(more, request), "logprobs");
  request.n = 128;
  EXPECT_GE(tokens_with_logprobs(request, 1'000'000), 1u);
}

}  // namespace
}  // namespace kvik
