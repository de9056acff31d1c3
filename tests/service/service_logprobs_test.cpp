#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "engine/sample/log_softmax.h"
#include "support/tiny_service.h"

namespace kvik {
namespace {

TEST(ServiceLogprobs, come_one_per_token_with_as_many_others_as_asked_for) {
  ServiceRig rig;
  CompletionRequest request = letters_request(20);
  request.engine.n_logprobs = 3;
  const Choice choice = rig.answer(request).choices[0];
  ASSERT_EQ(choice.logprobs.size(), 20u);
  for (size_t i = 0; i < 20; ++i) {
    const ChunkLogprob& logprob = choice.logprobs[i];
    EXPECT_EQ(logprob.bytes, choice.text.substr(i, 1));
    EXPECT_EQ(logprob.text_offset, i);
    EXPECT_LT(logprob.logprob, 0);
    ASSERT_EQ(logprob.top.size(), 3u);
    EXPECT_GE(logprob.top[0].second, logprob.top[1].second);
    EXPECT_GE(logprob.top[1].second, logprob.top[2].second);
    EXPECT_GE(logprob.top[0].second, logprob.logprob);
  }
}

TEST(ServiceLogprobs, zero_alternatives_are_possible) {
  ServiceRig rig;
  CompletionRequest request = letters_request(5);
  request.engine.n_logprobs = 0;
  const Choice choice = rig.answer(request).choices[0];
  ASSERT_EQ(choice.logprobs.size(), 5u);
  for (const ChunkLogprob& logprob : choice.logprobs) EXPECT_TRUE(logprob.top.empty());
}

TEST(ServiceLogprobs, a_token_that_is_part_of_a_character_is_a_replacement_character_as_text) {
  ServiceRig rig;
  CompletionRequest request = letters_request(60);
  request.engine.sampling.logit_bias = only_bytes("aé€");
  request.engine.n_logprobs = 5;
  int n_parts = 0;
  const Choice choice = rig.answer(request).choices[0];
  for (const ChunkLogprob& logprob : choice.logprobs) {
    EXPECT_EQ(logprob.token, logprob.bytes == "a" ? "a" : "\uFFFD");
    for (const auto& [token, value] : logprob.top)
      EXPECT_TRUE(token == "\uFFFD" || static_cast<uint8_t>(token[0]) < 0x80) << token;
    n_parts += logprob.bytes != "a" ? 1 : 0;
  }
  EXPECT_GT(n_parts, 0);
}

TEST(ServiceLogprobs, offsets_are_right_after_invalid_utf8) {
  ServiceRig rig;
  CompletionRequest request = letters_request(200);
  request.engine.sampling.logit_bias = only_bytes("xyzé€");
  request.engine.n_logprobs = 0;
  request.output.echo = true;
  const Choice choice = rig.answer(request).choices[0];
  ASSERT_NE(choice.text.find("\uFFFD"), std::string::npos);
  uint32_t last = 0;
  int n_letters = 0;
  for (const ChunkLogprob& logprob : choice.logprobs) {
    EXPECT_GE(logprob.text_offset, last);
    last = logprob.text_offset;
    ASSERT_LE(last, choice.text.size());
    if (logprob.bytes != "x" && logprob.bytes != "y" && logprob.bytes != "z") continue;
    // A letter also ends an incomplete character: the U+FFFD then precedes the letter.
    const std::string_view rest = std::string_view(choice.text).substr(last);
    EXPECT_TRUE(rest.starts_with(logprob.bytes) || rest.starts_with("\uFFFD" + logprob.bytes));
    ++n_letters;
  }
  EXPECT_GT(n_letters, 20);
}

TEST(ServiceLogprobs, with_echo_cover_the_prompt_too) {
  ServiceRig rig;
  const auto prompt = some_tokens(40);
  CompletionRequest request = letters_request(10);
  request.prompt = prompt;
  request.engine.n_logprobs = 2;
  request.output.echo = true;
  const Choice choice = rig.answer(request).choices[0];
  ASSERT_EQ(choice.logprobs.size(), 50u);
  EXPECT_FALSE(choice.logprobs[0].logprob.has_value());  // no token precedes it
  EXPECT_TRUE(choice.logprobs[0].top.empty());

  // The engine's logits for each prompt token.
  EngineRig engine;
  Request plain = greedy_request(prompt, 0);
  plain.logits = Request::Logits::kAll;
  const auto rows = engine.run(plain)->logits();
  ASSERT_EQ(rows.size(), 40u);
  for (size_t i = 1; i < 40; ++i) {
    const auto& row = rows[i - 1].second;
    EXPECT_EQ(choice.logprobs[i].logprob, LogSoftmax(row).of(prompt[i]));
    ASSERT_EQ(choice.logprobs[i].top.size(), 2u);
    EXPECT_EQ(choice.logprobs[i].top[0].second, LogSoftmax(row).top(1)[0].logprob);
  }
}

TEST(ServiceLogprobs, with_echo_of_no_answer_are_those_of_the_prompt) {
  ServiceRig rig;
  CompletionRequest request = letters_request(0);
  request.prompt = some_tokens(10);
  request.engine.n_logprobs = 1;
  request.output.echo = true;
  EXPECT_EQ(rig.answer(request).choices[0].logprobs.size(), 10u);
}

TEST(ServiceLogprobs, are_of_the_model_before_sampling_parameters) {
  ServiceRig rig;
  CompletionRequest request = letters_request(1);
  request.engine.n_logprobs = 20;
  request.engine.sampling.logit_bias = {{byte_token('q'), 100.0f}};
  const ChunkLogprob biased = rig.answer(request).choices[0].logprobs[0];
  EXPECT_EQ(biased.bytes, "q");
  request.engine.sampling.logit_bias.clear();
  request.engine.sampling.temperature = 0;
  const ChunkLogprob plain = rig.answer(request).choices[0].logprobs[0];
  EXPECT_EQ(biased.top, plain.top);
  EXPECT_LE(biased.logprob, plain.logprob);
}

}  // namespace
}  // namespace kvik
