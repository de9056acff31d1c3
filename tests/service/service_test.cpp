#include "service/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/tiny_service.h"
#include "text/detokenizer.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the text of an answer's tokens.
std::string text_of(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  Detokenizer detokenizer(tokenizer, Detokenizer::Position::kContinuation,
                          Tokenizer::Special::kHide);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

TEST(Service, the_text_is_that_of_the_tokens) {
  ServiceRig rig;
  CompletionRequest request;
  request.prompt = "Once upon a time";
  request.max_tokens = 200;
  request.output.return_token_ids = true;
  request.ignore_eos = true;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    request.seed = seed;
    const Answered answered = rig.answer(request);
    const Choice& choice = answered.choices[0];
    EXPECT_EQ(choice.token_ids.size(), 200u);
    EXPECT_EQ(choice.text, text_of(rig.tokenizer(), choice.token_ids));
    EXPECT_THAT(choice.finishes, ElementsAre(FinishReason::kLength));
    EXPECT_EQ(answered.usage.completion_tokens, 200u);
  }
}

TEST(Service, token_ids_come_only_where_asked_for) {
  ServiceRig rig;
  EXPECT_TRUE(rig.answer(letters_request(5)).choices[0].token_ids.empty());
  EXPECT_TRUE(rig.answer(letters_request(5)).choices[0].logprobs.empty());
}

TEST(Service, characters_are_never_cut) {
  // The model generates bytes of "é", "€" and "😀" in any order, with many invalid
  // sequences.
  ServiceRig rig;
  CompletionRequest request = letters_request(300);
  request.engine.sampling.logit_bias = only_bytes("é€😀");
  const auto sink = std::make_shared<RecordingCompletionSink>();
  const auto completion = rig.service().complete(request, sink);
  ASSERT_TRUE(completion.has_value());
  ASSERT_TRUE(sink->wait_until_done());
  std::set<std::string> seen;
  for (const CompletionChunk& chunk : sink->chunks()) {
    for (size_t at = 0; at < chunk.text.size();) {
      const auto is_at = [&](const std::string& c) {
        return chunk.text.compare(at, c.size(), c) == 0;
      };
      const auto lead = static_cast<uint8_t>(chunk.text[at]);
      const size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
      ASSERT_LE(at + n, chunk.text.size()) << "cut";
      ASSERT_TRUE(lead < 0x80 || lead >= 0xC2) << "a character's middle came first";
      if (is_at("é")) seen.insert("é");
      if (is_at("\uFFFD")) seen.insert("\uFFFD");
      at += n;
    }
  }
  EXPECT_EQ(seen, std::set<std::string>({"é", "\uFFFD"}));
}

TEST(Service, a_stop_string_across_tokens_ends_the_answer_and_is_never_sent) {
  ServiceRig rig;
  const std::string all = rig.answer(letters_request(60)).choices[0].text;
  ASSERT_EQ(all.size(), 60u);
  for (const size_t at : {0u, 20u, 57u}) {
    CompletionRequest request = letters_request(60);
    request.output.stop = {"@@@", all.substr(at, 3)};
    const Answered answered = rig.answer(request);
    const Choice& choice = answered.choices[0];
    const size_t found = all.find(request.output.stop[1]);
    EXPECT_EQ(choice.text, all.substr(0, found));
    EXPECT_THAT(choice.finishes, ElementsAre(FinishReason::kStop));
    EXPECT_EQ(choice.stop_string, request.output.stop[1]);
    EXPECT_EQ(answered.usage.completion_tokens, found + 3);
  }
}

TEST(Service, what_could_have_become_a_stop_string_is_sent_at_the_end) {
  ServiceRig rig;
  const std::string all = rig.answer(letters_request(20)).choices[0].text;
  CompletionRequest request = letters_request(20);
  request.output.stop = {all.substr(17) + "!"};
  const Choice choice = rig.answer(request).choices[0];
  EXPECT_EQ(choice.text, all);
  EXPECT_THAT(choice.finishes, ElementsAre(FinishReason::kLength));
  EXPECT_FALSE(choice.stop_string.has_value());
}

TEST(Service, an_end_token_ends_the_answer_unless_it_is_ignored) {
  ServiceRig rig;
  CompletionRequest request = letters_request(10);
  request.engine.sampling.logit_bias = {{2, 100.0f}};
  request.output.return_token_ids = true;
  Answered answered = rig.answer(request);
  EXPECT_EQ(answered.choices[0].text, "");
  EXPECT_TRUE(answered.choices[0].token_ids.empty());
  EXPECT_THAT(answered.choices[0].finishes, ElementsAre(FinishReason::kStop));

  request.ignore_eos = true;
  answered = rig.answer(request);
  EXPECT_EQ(answered.choices[0].text, "");  // it has no text, but it counts
  EXPECT_EQ(answered.choices[0].token_ids, std::vector<TokenId>(10, 2));
  EXPECT_THAT(answered.choices[0].finishes, ElementsAre(FinishReason::kLength));

  request.ignore_eos = false;
  request.min_tokens = 4;
  answered = rig.answer(request);
  EXPECT_EQ(answered.usage.completion_tokens, 4u);
}

TEST(Service, a_stop_token_ends_the_answer) {
  ServiceRig rig;
  const std::string all = rig.answer(letters_request(30)).choices[0].text;
  CompletionRequest request = letters_request(30);
  request.engine.stop_tokens = {byte_token(all[10])};
  EXPECT_EQ(rig.answer(request).choices[0].text, all.substr(0, all.find(all[10])));
}

TEST(Service, echo_puts_the_prompt_first_in_every_choice) {
  ServiceRig rig;
  const std::string plain = rig.answer(letters_request(8)).choices[0].text;
  CompletionRequest request = letters_request(8);
  request.output.echo = true;
  request.output.return_token_ids = true;
  request.n = 2;
  const Answered answered = rig.answer(request);
  const auto prompt = rig.tokenizer().tokenize("Once upon a time", {});
  const std::string prompt_text = rig.tokenizer().detokenize(prompt, Tokenizer::Special::kHide);
  EXPECT_EQ(answered.choices[0].text, prompt_text + plain);
  for (const Choice& choice : answered.choices) {
    EXPECT_TRUE(choice.text.starts_with(prompt_text));
    EXPECT_EQ(choice.token_ids.size(), prompt.size() + 8);
    EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), choice.token_ids.begin()));
  }
}

TEST(Service, echo_of_no_answer_is_the_prompt_alone) {
  ServiceRig rig;
  CompletionRequest request;
  request.prompt = std::vector<TokenId>{byte_token('h'), byte_token('i')};
  request.max_tokens = 0;
  request.output.echo = true;
  const Answered answered = rig.answer(request);
  EXPECT_EQ(answered.choices[0].text, "hi");
  EXPECT_THAT(answered.choices[0].finishes, ElementsAre(FinishReason::kLength));
  EXPECT_EQ(answered.usage.prompt_tokens, 2u);
  EXPECT_EQ(answered.usage.completion_tokens, 0u);
}

TEST(Service, a_stop_string_in_an_echoed_prompt_stops_nothing) {
  ServiceRig rig;
  CompletionRequest request = letters_request(8);
  request.output.echo = true;
  request.output.stop = {"upon"};
  EXPECT_THAT(rig.answer(request).choices[0].finishes, ElementsAre(FinishReason::kLength));
}

TEST(Service, choices_differ_and_a_seed_brings_them_back) {
  ServiceRig rig;
  CompletionRequest request = letters_request(30);
  request.n = 4;
  const Answered first = rig.answer(request);
  const Answered second = rig.answer(request);
  std::set<std::string> texts;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(first.choices[i].text, second.choices[i].text);
    EXPECT_THAT(first.choices[i].finishes, ElementsAre(FinishReason::kLength));
    texts.insert(first.choices[i].text);
  }
  EXPECT_EQ(texts.size(), 4u);
  EXPECT_EQ(rig.answer(letters_request(30)).choices[0].text, first.choices[0].text);
  EXPECT_EQ(first.usage.prompt_tokens, first.prompt_tokens);  // counted once
  EXPECT_EQ(first.usage.completion_tokens, 4u * 30);
}

TEST(Service, without_a_seed_answers_differ) {
  ServiceRig rig;
  CompletionRequest request = letters_request(30);
  request.seed.reset();
  EXPECT_NE(rig.answer(request).choices[0].text, rig.answer(request).choices[0].text);
}

TEST(Service, the_cache_switched_off_changes_no_text) {
  ServiceRig rig;
  CompletionRequest request = letters_request(40);
  const std::string cached = rig.answer(request).choices[0].text;
  request.engine.cache = Request::Cache::kOff;
  EXPECT_EQ(rig.answer(request).choices[0].text, cached);
}

TEST(Service, text_prompts_get_exactly_one_bos) {
  ServiceRig rig;
  CompletionRequest request = letters_request(1);
  request.output.echo = request.output.return_token_ids = true;
  const auto prompt_of = [&](const std::string& text) {
    request.prompt = text;
    auto ids = rig.answer(request).choices[0].token_ids;
    ids.pop_back();
    return ids;
  };
  const auto plain = prompt_of("hi");
  EXPECT_EQ(plain[0], 1u);
  EXPECT_EQ(std::ranges::count(plain, 1u), 1);
  EXPECT_EQ(prompt_of("<s>hi"), plain);
  EXPECT_EQ(prompt_of(""), std::vector<TokenId>{1});
}

TEST(Service, special_tokens_in_a_text_prompt_are_parsed) {
  ServiceRig rig;
  CompletionRequest request = letters_request(1);
  request.prompt = "a</s>b";
  request.output.echo = request.output.return_token_ids = true;
  const auto ids = rig.answer(request).choices[0].token_ids;
  EXPECT_EQ(std::ranges::count(ids, 2u), 1);
  EXPECT_EQ(std::ranges::count(ids, byte_token('<')), 0);
}

TEST(Service, prompts_of_ids_are_fed_as_they_are) {
  ServiceRig rig;
  CompletionRequest request = letters_request(1);
  const std::vector<TokenId> prompt = {1, 1, byte_token('x')};
  request.prompt = prompt;
  request.output.echo = request.output.return_token_ids = true;
  auto ids = rig.answer(request).choices[0].token_ids;
  ids.pop_back();
  EXPECT_EQ(ids, prompt);
}

TEST(Service, prompts_of_no_ids_or_unknown_ones_are_refused) {
  ServiceRig rig;
  CompletionRequest request = letters_request(1);
  for (const auto& ids : std::vector<std::vector<TokenId>>{{}, {5, 260}, {UINT32_MAX}}) {
    request.prompt = ids;
    const Error error = rig.error_of(request);
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(error.param, "prompt");
  }
}

TEST(Service, a_prompt_that_leaves_no_room_for_an_answer_is_too_long) {
  ServiceRig rig({.n_ctx_max = 50});
  CompletionRequest request = letters_request(10);
  request.prompt = some_tokens(50);
  const Error error = rig.error_of(request);
  EXPECT_EQ(error.code, ErrorCode::kContextLength);
  EXPECT_EQ(error.param, "prompt");
  EXPECT_THAT(error.message, HasSubstr("50"));
  request.prompt = some_tokens(100000);
  EXPECT_EQ(rig.error_of(request).code, ErrorCode::kContextLength);
  request.prompt = std::string(1000, 'x');
  EXPECT_EQ(rig.error_of(request).code, ErrorCode::kContextLength);
  request.prompt = some_tokens(49);
  EXPECT_EQ(rig.answer(request).usage.completion_tokens, 1u);
  request.prompt = some_tokens(50);
  request.max_tokens = 0;
  request.output.echo = true;
  EXPECT_EQ(rig.answer(request).usage.prompt_tokens, 50u);
}

TEST(Service, an_answer_ends_where_the_context_does) {
  ServiceRig rig({.n_ctx_max = 60});
  CompletionRequest request = letters_request(UINT64_MAX);
  request.prompt = some_tokens(20);
  request.min_tokens = UINT64_MAX;
  Answered answered = rig.answer(request);
  EXPECT_EQ(answered.usage.completion_tokens, 40u);
  EXPECT_THAT(answered.choices[0].finishes, ElementsAre(FinishReason::kLength));
  request.max_tokens.reset();
  EXPECT_EQ(rig.answer(request).usage.completion_tokens, 40u);
}

TEST(Service, requests_are_checked_before_anything_runs) {
  ServiceRig rig;
  CompletionRequest request = letters_request(10);
  request.model = "another";
  EXPECT_EQ(rig.error_of(request).code, ErrorCode::kNotFound);
  request = letters_request(10);
  request.engine.sampling.temperature = -1;
  EXPECT_EQ(rig.error_of(request).param, "temperature");
  EXPECT_EQ(rig.service().snapshot().steps, 0u);
}

TEST(Service, tokenizes_and_detokenizes) {
  ServiceRig rig;
  const auto ids = rig.service().tokenize("<s>hi", {.add_bos = false, .parse_special = true});
  EXPECT_EQ(ids.front(), 1u);
  EXPECT_EQ(ids.back(), byte_token('i'));
  const auto text = rig.service().detokenize(std::vector<TokenId>{1, byte_token('h')});
  ASSERT_TRUE(text.has_value());
  EXPECT_EQ(*text, "<s>h");
  const auto unknown = rig.service().detokenize(std::vector<TokenId>{5, 260});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(unknown.error().param, "tokens");
}

}  // namespace
}  // namespace kvik
