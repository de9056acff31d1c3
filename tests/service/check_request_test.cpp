#include "service/check_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace kvik {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

ModelCard card() {
  ModelCard card;
  card.id = "tiny";
  card.n_vocab = 260;
  card.n_ctx_max = 2048;
  return card;
}

CompletionRequest request() {
  CompletionRequest request;
  request.prompt = "hello";
  return request;
}

using Change = std::function<void(CompletionRequest&)>;

void expect_valid(const Change& change) {
  CompletionRequest r = request();
  change(r);
  const auto checked = check_request(r, card());
  EXPECT_TRUE(checked.has_value()) << checked.error().message;
}

// Expects an error whose `param` is the field and whose message has the field and the value.
void expect_refused(const std::string& param, const std::string& value, const Change& spoil) {
  CompletionRequest r = request();
  spoil(r);
  const auto checked = check_request(r, card());
  ASSERT_FALSE(checked.has_value()) << param << " " << value;
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(checked.error().param, param);
  EXPECT_THAT(checked.error().message, HasSubstr(param + " is " + value + ", expected "));
}

TEST(CheckRequest, the_defaults_are_fine) {
  expect_valid([](auto&) {});
}

TEST(CheckRequest, a_name_with_the_tag_latest_is_the_same) {
  ModelCard model = card();
  model.aliases = {"other", "third:latest"};
  for (const char* name : {"tiny", "tiny:latest", "other:latest", "third", "third:latest"})
    EXPECT_TRUE(check_model(name, model).has_value()) << name;
  for (const char* name : {"tiny:q4", "tiny:latest:latest", ":latest", "", "tin"})
    EXPECT_FALSE(check_model(name, model).has_value()) << name;
}

TEST(CheckRequest, values_at_their_bounds_are_fine) {
  for (const float t : {0.0f, 100.0f})
    expect_valid([&](auto& r) { r.engine.sampling.temperature = t; });
  for (const float p : {1e-9f, 1.0f}) expect_valid([&](auto& r) { r.engine.sampling.top_p = p; });
  for (const float p : {0.0f, 1.0f}) expect_valid([&](auto& r) { r.engine.sampling.min_p = p; });
  for (const float p : {1e-9f, 100.0f}) {
    expect_valid([&](auto& r) { r.engine.sampling.repetition_penalty = p; });
  }
  for (const float p : {-2.0f, 2.0f}) {
    expect_valid([&](auto& r) {
      r.engine.sampling.presence_penalty = r.engine.sampling.frequency_penalty = p;
    });
  }
  expect_valid([](auto& r) { r.engine.sampling.top_k = UINT32_MAX; });
  for (const float b : {-100.0f, 100.0f}) {
    expect_valid([&](auto& r) { r.engine.sampling.logit_bias = {{0, b}, {259, b}}; });
  }
  for (const uint32_t n : {1u, 128u}) expect_valid([&](auto& r) { r.n = n; });
  for (const uint32_t n : {0u, 20u}) expect_valid([&](auto& r) { r.engine.n_logprobs = n; });
  for (const uint32_t n : {0u, 20u}) expect_valid([&](auto& r) { r.output.n_prompt_logprobs = n; });
  expect_valid([](auto& r) { r.max_tokens = 1; });
  expect_valid([](auto& r) { r.max_tokens = r.min_tokens = 5; });
  expect_valid(
      [](auto& r) { r.output.stop = std::vector<std::string>(16, std::string(1024, 'x')); });
  expect_valid([](auto& r) { r.engine.stop_tokens = std::vector<TokenId>(256, 259); });
}

TEST(CheckRequest, a_longer_answer_than_any_context_is_cut_later_not_refused) {
  expect_valid([](auto& r) { r.max_tokens = uint64_t{1} << 63; });
  expect_valid([](auto& r) { r.max_tokens = UINT64_MAX; });
}

TEST(CheckRequest, an_answer_of_no_tokens_is_refused_unless_the_prompt_is_echoed) {
  expect_refused("max_tokens", "0", [](auto& r) { r.max_tokens = 0; });
  expect_valid([](auto& r) {
    r.max_tokens = 0;
    r.output.echo = true;
  });
}

TEST(CheckRequest, too_many_choices_are_rejected) {
  expect_refused("n", "0", [](auto& r) { r.n = 0; });
  expect_refused("n", "129", [](auto& r) { r.n = 129; });
  expect_refused("n", "2147483648", [](auto& r) { r.n = 1u << 31; });
}

TEST(CheckRequest, invalid_temperatures_are_rejected) {
  expect_refused("temperature", "-1", [](auto& r) { r.engine.sampling.temperature = -1; });
  expect_refused("temperature", "1000000", [](auto& r) { r.engine.sampling.temperature = 1e6f; });
  expect_refused("temperature", "nan", [](auto& r) { r.engine.sampling.temperature = kNan; });
  expect_refused("temperature", "inf", [](auto& r) { r.engine.sampling.temperature = kInf; });
}

TEST(CheckRequest, shares_outside_their_range_are_refused) {
  expect_refused("top_p", "-1", [](auto& r) { r.engine.sampling.top_p = -1; });
  expect_refused("top_p", "0", [](auto& r) { r.engine.sampling.top_p = 0; });
  expect_refused("top_p", "1.5", [](auto& r) { r.engine.sampling.top_p = 1.5f; });
  expect_refused("top_p", "nan", [](auto& r) { r.engine.sampling.top_p = kNan; });
  expect_refused("min_p", "-0.5", [](auto& r) { r.engine.sampling.min_p = -0.5f; });
  expect_refused("min_p", "2", [](auto& r) { r.engine.sampling.min_p = 2; });
  expect_refused("min_p", "nan", [](auto& r) { r.engine.sampling.min_p = kNan; });
}

TEST(CheckRequest, penalties_outside_their_range_are_refused) {
  expect_refused("repetition_penalty", "0",
                 [](auto& r) { r.engine.sampling.repetition_penalty = 0; });
  expect_refused("repetition_penalty", "-1",
                 [](auto& r) { r.engine.sampling.repetition_penalty = -1; });
  expect_refused("repetition_penalty", "inf",
                 [](auto& r) { r.engine.sampling.repetition_penalty = kInf; });
  expect_refused("repetition_penalty", "nan",
                 [](auto& r) { r.engine.sampling.repetition_penalty = kNan; });
  expect_refused("presence_penalty", "3", [](auto& r) { r.engine.sampling.presence_penalty = 3; });
  expect_refused("presence_penalty", "nan",
                 [](auto& r) { r.engine.sampling.presence_penalty = kNan; });
  expect_refused("frequency_penalty", "-3",
                 [](auto& r) { r.engine.sampling.frequency_penalty = -3; });
  expect_refused("frequency_penalty", "nan",
                 [](auto& r) { r.engine.sampling.frequency_penalty = kNan; });
}

TEST(CheckRequest, biases_for_unknown_tokens_or_of_absurd_size_are_refused) {
  expect_refused("logit_bias", "260", [](auto& r) {
    r.engine.sampling.logit_bias = {{260, 1.0f}};
  });
  expect_refused("logit_bias", "4294967295", [](auto& r) {
    r.engine.sampling.logit_bias = {{static_cast<TokenId>(-1), 1.0f}};
  });
  expect_refused("logit_bias", "101", [](auto& r) {
    r.engine.sampling.logit_bias = {{5, 101.0f}};
  });
  expect_refused("logit_bias", "nan", [](auto& r) { r.engine.sampling.logit_bias = {{5, kNan}}; });
  expect_refused("logit_bias", "1025", [](auto& r) { r.engine.sampling.logit_bias.resize(1025); });
}

TEST(CheckRequest, stop_tokens_outside_the_vocabulary_are_refused) {
  expect_refused("stop_token_ids", "260", [](auto& r) { r.engine.stop_tokens = {5, 260}; });
  expect_refused("stop_token_ids", "4294967295",
                 [](auto& r) { r.engine.stop_tokens = {static_cast<TokenId>(-1)}; });
  expect_refused("stop_token_ids", "257",
                 [](auto& r) { r.engine.stop_tokens = std::vector<TokenId>(257, 5); });
}

TEST(CheckRequest, empty_huge_or_too_many_stop_strings_are_refused) {
  expect_refused("stop", "0", [](auto& r) { r.output.stop = {"fine", ""}; });
  expect_refused("stop", "1025", [](auto& r) { r.output.stop = {std::string(1025, 'x')}; });
  expect_refused("stop", "17", [](auto& r) { r.output.stop = std::vector<std::string>(17, "x"); });
  expect_refused("stop", "1000000",
                 [](auto& r) { r.output.stop = std::vector<std::string>(1000000, "x"); });
}

TEST(CheckRequest, too_many_logprobs_are_rejected) {
  expect_refused("logprobs", "21", [](auto& r) { r.engine.n_logprobs = 21; });
  expect_refused("logprobs", "4294967295", [](auto& r) { r.engine.n_logprobs = UINT32_MAX; });
  expect_refused("prompt_logprobs", "21", [](auto& r) { r.output.n_prompt_logprobs = 21; });
}

TEST(CheckRequest, min_tokens_above_max_tokens_is_rejected) {
  expect_refused("min_tokens", "6", [](auto& r) {
    r.max_tokens = 5;
    r.min_tokens = 6;
  });
}

TEST(CheckRequest, another_model_is_not_found) {
  expect_valid([](auto& r) { r.model = "tiny"; });
  CompletionRequest r = request();
  r.model = "gpt-5";
  const auto checked = check_request(r, card());
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(checked.error().param, "model");
  EXPECT_THAT(checked.error().message, HasSubstr("'gpt-5'"));
  EXPECT_THAT(checked.error().message, HasSubstr("'tiny'"));
}

TEST(CheckRequest, a_token_is_left_to_sample) {
  constexpr uint32_t kVocab = 8;
  Request request;
  for (TokenId id = 0; id < kVocab; ++id) request.sampling.logit_bias.emplace_back(id, -100);
  EXPECT_TRUE(check_tokens_left(request, kVocab)) << "-100 is a number";
  for (auto& [id, bias] : request.sampling.logit_bias) bias = id < 6 ? -kInf : 0;
  request.sampling.banned = {{6}, {6}, {7, 7}};
  EXPECT_TRUE(check_tokens_left(request, kVocab)) << "7 is left";
  request.stop_tokens = {7};
  EXPECT_TRUE(check_tokens_left(request, kVocab)) << "it ends the answer";
  request.min_tokens = 1;
  const auto stopped = check_tokens_left(request, kVocab);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(stopped.error().message, HasSubstr("forbid all 8 tokens of the vocabulary"));
  request.min_tokens = 0;
  request.sampling.banned = {{6}, {7}};
  EXPECT_FALSE(check_tokens_left(request, kVocab));
}

}  // namespace
}  // namespace kvik
