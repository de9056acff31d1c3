#include "server/dialects/attest/attestation_json.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <string>

namespace kvik {
namespace {

namespace json = boost::json;

// Two prompts with two choices each.
json::object some_answer() {
  auto first = std::make_shared<AttestedRequest>();
  first->prompt = {1, 2, 3};
  first->sampling.temperature = 0.7f;
  first->sampling.top_k = 40;
  first->sampling.seed = UINT64_MAX;
  first->sampling.logit_bias = {{5, -100.0f}, {6, 0.1f}};
  first->sampling.xtc.probability = 0.5f;
  first->sampling.dry = {
      .multiplier = 0.8f,
      .breakers = std::make_shared<DryBreakers>(DryBreakers{{5, {{}, {6, 7}}}, {9, {{}}}})};
  first->sampling.banned = {{1, 2}, {3}};
  first->sampling.order = {SamplerKind::kPenalties, SamplerKind::kTemperature, SamplerKind::kXtc};
  first->min_tokens = 2;
  first->stop_tokens = {7, 8};
  auto second = std::make_shared<AttestedRequest>();
  second->prompt = {4};
  second->sampling = first->sampling;
  second->sampling.seed = 7;
  second->adapter = "ab12";
  second->is_constrained = true;
  const Attestation attestation{"model", "numerics", "int8/int4", {first, second}};
  WholeAnswer answer;
  for (uint32_t i = 0; i < 4; ++i) {
    CompletionChoice choice;
    choice.token_ids = {10 + i, 20 + i};
    choice.links = {i, UINT64_MAX - i};
    choice.ended_itself = i % 2 == 1;
    choice.end_link = 100 + i;
    answer.choices.push_back(std::move(choice));
  }
  json::object out{{"kvik", {{"attest", attestation_json(attestation, answer)}}}};
  json::array choices;
  for (const CompletionChoice& choice : answer.choices) {
    const json::array ids(choice.token_ids.begin(), choice.token_ids.end());
    choices.push_back(json::object{{"token_ids", ids}});
  }
  out["choices"] = std::move(choices);
  return out;
}

TEST(AttestationJson, is_read_as_it_was_written) {
  const auto answer = read_attested_answer(json::serialize(some_answer()));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->model, "model");
  EXPECT_EQ(answer->numerics, "numerics");
  EXPECT_EQ(answer->kv_type, "int8/int4");
  ASSERT_EQ(answer->prompts.size(), 2);
  const AttestedRequest& first = answer->prompts[0].request;
  EXPECT_EQ(first.prompt, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ(first.sampling.temperature, 0.7f);
  EXPECT_EQ(first.sampling.top_k, 40);
  EXPECT_EQ(first.sampling.top_p, 1.0f);
  EXPECT_EQ(first.sampling.seed, UINT64_MAX);
  ASSERT_EQ(first.sampling.logit_bias.size(), 2);
  EXPECT_EQ(first.sampling.logit_bias[0], (std::pair<TokenId, float>{5, -100.0f}));
  EXPECT_EQ(first.sampling.logit_bias[1], (std::pair<TokenId, float>{6, 0.1f}));
  EXPECT_EQ(first.sampling.xtc.probability, 0.5f);
  EXPECT_EQ(first.sampling.dry.multiplier, 0.8f);
  EXPECT_EQ(sorted_breakers(first.sampling.dry),
            (std::vector<std::vector<TokenId>>{{5}, {5, 6, 7}, {9}}));
  EXPECT_EQ(first.sampling.banned, (std::vector<std::vector<TokenId>>{{1, 2}, {3}}));
  EXPECT_EQ(first.sampling.order,
            (std::vector{SamplerKind::kPenalties, SamplerKind::kTemperature, SamplerKind::kXtc}));
  EXPECT_EQ(first.min_tokens, 2);
  EXPECT_EQ(first.stop_tokens, (std::vector<TokenId>{7, 8}));
  EXPECT_FALSE(first.is_constrained);
  const AttestedRequest& second = answer->prompts[1].request;
  EXPECT_EQ(second.sampling.seed, 7);
  EXPECT_EQ(second.sampling.temperature, 0.7f);
  EXPECT_EQ(second.adapter, "ab12");
  EXPECT_TRUE(second.is_constrained);
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(answer->prompts[i / 2].choices.size(), 2);
    const AttestedChoice& choice = answer->prompts[i / 2].choices[i % 2];
    EXPECT_EQ(choice.ids, (std::vector<TokenId>{10 + i, 20 + i}));
    EXPECT_EQ(choice.links, (std::vector<LogitsChain::Link>{i, UINT64_MAX - i}));
    EXPECT_EQ(choice.ended_itself, i % 2 == 1);
    EXPECT_EQ(choice.end, 100 + i);
  }
}

json::object& attest_of(json::object& answer) {
  return answer["kvik"].get_object()["attest"].get_object();
}

TEST(AttestationJson, errors_name_the_field) {
  using Change = void (*)(json::object&);
  const std::pair<Change, std::string_view> cases[] = {
      {[](json::object& a) { a.erase("kvik"); }, "there is no kvik.attest"},
      {[](json::object& a) { a["kvik"] = 1; }, "kvik must be an object"},
      {[](json::object& a) { a["kvik"] = json::object(); }, "there is no kvik.attest"},
      {[](json::object& a) { a.erase("choices"); }, "choices is missing"},
      {[](json::object& a) { a["choices"].get_array().pop_back(); }, "there are 3 choices"},
      {[](json::object& a) { a["choices"].get_array()[1] = 5; }, "choices[1] must be an object"},
      {[](json::object& a) { attest_of(a).erase("model"); }, "kvik.attest.model is missing"},
      {[](json::object& a) { attest_of(a)["numerics"] = 3; }, "kvik.attest.numerics must be"},
      {[](json::object& a) { attest_of(a)["prompts"] = json::array(); }, "prompts is empty"},
      {[](json::object& a) {
         attest_of(a)["prompts"].get_array()[0].get_object()["prompt"] = json::array();
       },
       "has no tokens"},
      {[](json::object& a) {
         attest_of(a)["prompts"].get_array()[0].get_object()["prompt"] = json::array{-1};
       },
       "kvik.attest.prompts[0].prompt"},
      {[](json::object& a) { attest_of(a)["prompts"].get_array()[1].get_object()["seed"] = "x"; },
       "seed is 'x'"},
      {[](json::object& a) { attest_of(a).erase("sampling"); }, "kvik.attest.sampling is missing"},
      {[](json::object& a) { attest_of(a)["sampling"].get_object()["top_p"] = 2; }, "top_p is 2"},
      {[](json::object& a) { attest_of(a)["prompts"].get_array()[1].get_object().erase("seed"); },
       "seed is missing"},
      {[](json::object& a) {
         attest_of(a)["sampling"].get_object()["logit_bias"] = json::array{5};
       },
       "logit_bias[0]"},
      {[](json::object& a) { attest_of(a)["sampling"].get_object()["samplers"] = "ez"; },
       "samplers holds 'z'"},
      {[](json::object& a) {
         attest_of(a)["sampling"].get_object()["banned"] = json::array{json::array()};
       },
       "banned[0] must be a list of token ids"},
      {[](json::object& a) {
         attest_of(a)["choices"].get_array()[0].get_object()["links"].get_array().pop_back();
       },
       "links has 1 entries, expected 2"},
      {[](json::object& a) {
         attest_of(a)["choices"].get_array()[0].get_object()["links"].get_array()[1] = "xyz";
       },
       "links[1] must be 16 hexadecimal digits"},
      {[](json::object& a) { attest_of(a)["choices"].get_array()[2].get_object().erase("ended"); },
       "ended is missing"},
      {[](json::object& a) { attest_of(a)["choices"].get_array()[2].get_object()["end"] = 5; },
       "end must be 16 hexadecimal digits"},
      {[](json::object& a) {
         a["choices"] = json::array();
         attest_of(a)["choices"] = json::array();
       },
       "there are 0 choices"},
      {[](json::object& a) {
         a["choices"].get_array()[0].get_object()["token_ids"] = json::array();
         attest_of(a)["choices"].get_array()[0].get_object()["links"] = json::array();
       },
       "token_ids is empty"},
  };
  for (const auto& [change, message] : cases) {
    json::object answer = some_answer();
    change(answer);
    const auto read = read_attested_answer(json::serialize(answer));
    ASSERT_FALSE(read) << message;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(read.error().message.find(message), std::string::npos) << read.error().message;
  }
}

TEST(AttestationJson, other_texts_are_no_answers) {
  for (const std::string_view text : {"", "[]", "{", "data: {}", "\xff"}) {
    EXPECT_FALSE(read_attested_answer(text)) << text;
  }
}

}  // namespace
}  // namespace kvik
