#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/sample/log_softmax.h"
#include "service/request_bounds.h"
#include "support/tiny_service.h"

namespace kvik {
namespace {

CompletionRequest request_of(std::vector<TokenId> prompt, uint32_t n_prompt_logprobs) {
  CompletionRequest request = letters_request(5);
  request.prompt = std::move(prompt);
  request.output.n_prompt_logprobs = n_prompt_logprobs;
  return request;
}

// Returns the engine's logits after each token of the prompt.
std::vector<std::vector<float>> logits_of(const std::vector<TokenId>& prompt) {
  EngineRig engine;
  Request plain = greedy_request(prompt, 0);
  plain.logits = Request::Logits::kAll;
  std::vector<std::vector<float>> rows;
  for (const auto& [position, row] : engine.run(plain)->logits()) rows.push_back(row);
  return rows;
}

TEST(PromptLogprobs, are_the_engines_own_of_each_token_and_the_likeliest) {
  ServiceRig rig;
  const auto prompt = some_tokens(40);
  const auto rows = logits_of(prompt);
  const auto all = rig.answer(request_of(prompt, 3)).choices[0].prompt_logprobs;
  ASSERT_EQ(all.size(), 40u);
  EXPECT_TRUE(all[0].empty());
  for (size_t i = 1; i < 40; ++i) {
    const auto top = LogSoftmax(rows[i - 1]).top(3);
    const auto& own = all[i].front();
    EXPECT_EQ(own.id, prompt[i]);
    EXPECT_EQ(own.logprob, LogSoftmax(rows[i - 1]).of(prompt[i]));
    EXPECT_EQ(own.rank, rank_of(rows[i - 1], prompt[i]));
    EXPECT_EQ(all[i].size(), own.rank <= 3 ? 3u : 4u);
    for (uint32_t k = 0; k < 3; ++k) {
      const auto found = std::ranges::find(all[i], top[k].id, &PromptLogprob::id);
      ASSERT_NE(found, all[i].end());
      EXPECT_EQ(found->logprob, top[k].logprob);
      EXPECT_EQ(found->rank, k + 1);
    }
  }
}

TEST(PromptLogprobs, equal_those_of_echo_with_logprobs) {
  ServiceRig rig;
  const auto prompt = some_tokens(30);
  CompletionRequest request = request_of(prompt, 2);
  request.engine.n_logprobs = 2;
  request.output.echo = true;
  const Choice both = rig.answer(request).choices[0];
  ASSERT_EQ(both.logprobs.size(), 35u);
  ASSERT_EQ(both.prompt_logprobs.size(), 30u);
  for (size_t i = 1; i < 30; ++i) {
    EXPECT_EQ(both.prompt_logprobs[i][0].logprob, both.logprobs[i].logprob);
    EXPECT_EQ(both.prompt_logprobs[i][0].token, both.logprobs[i].token);
  }
}

TEST(PromptLogprobs, leave_the_answer_and_its_own_logprobs_as_they_are) {
  ServiceRig rig;
  CompletionRequest request = letters_request(20);
  request.engine.n_logprobs = 1;
  const Choice plain = rig.answer(request).choices[0];
  request.output.n_prompt_logprobs = 0;
  const Choice with = rig.answer(request).choices[0];
  EXPECT_EQ(with.text, plain.text);
  ASSERT_EQ(with.logprobs.size(), 20u);
  EXPECT_EQ(with.logprobs[19].logprob, plain.logprobs[19].logprob);
  for (size_t i = 1; i < with.prompt_logprobs.size(); ++i)
    EXPECT_EQ(with.prompt_logprobs[i].size(), 1u);
}

TEST(PromptLogprobs, do_not_use_the_cache) {
  ServiceRig rig;
  const auto prompt = some_tokens(60);
  CompletionRequest request = letters_request(5);
  request.prompt = prompt;
  rig.answer(request);
  EXPECT_GT(rig.answer(request).usage.cached_tokens, 0u);
  const Answered answered = rig.answer(request_of(prompt, 1));
  EXPECT_EQ(answered.usage.cached_tokens, 0u);
  EXPECT_EQ(answered.choices[0].prompt_logprobs.size(), 60u);
}

TEST(PromptLogprobs, come_once_for_all_choices_with_the_first) {
  ServiceRig rig;
  CompletionRequest request = request_of(some_tokens(20), 1);
  request.n = 3;
  const Answered answered = rig.answer(request);
  EXPECT_EQ(answered.usage.cached_tokens, 0u);
  EXPECT_EQ(answered.choices[0].prompt_logprobs.size(), 20u);
  EXPECT_TRUE(answered.choices[1].prompt_logprobs.empty());
  EXPECT_TRUE(answered.choices[2].prompt_logprobs.empty());
}

TEST(PromptLogprobs, of_one_token_are_nothing_and_an_echo_beside_them_is_text_alone) {
  ServiceRig rig;
  CompletionRequest request = request_of({byte_token('a')}, 1);
  request.output.echo = true;
  const Choice choice = rig.answer(request).choices[0];
  ASSERT_EQ(choice.prompt_logprobs.size(), 1u);
  EXPECT_TRUE(choice.prompt_logprobs[0].empty());
  EXPECT_TRUE(choice.logprobs.empty());
  EXPECT_TRUE(choice.text.starts_with("a"));
}

TEST(PromptLogprobs, beyond_memory_are_rejected) {
  ServiceRig rig;
  CompletionRequest request = request_of(some_tokens(500), 20);
  request.n = 128;
  ASSERT_GT(uint64_t{500} * 21 * 128, RequestBounds::kLogprobEntries);
  EXPECT_EQ(rig.error_of(request).param, "prompt_logprobs");
  EXPECT_EQ(rig.error_of(request_of({}, 1)).code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvik
