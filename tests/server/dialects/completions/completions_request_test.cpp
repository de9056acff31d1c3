#include "server/dialects/completions/completions_request.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "server/fake_service.h"
#include "server/parsed_body.h"

namespace kvik {
namespace {

CompletionCall parse(const std::string& body) {
  auto call = parse_completions_call(FakeService(), ParsedBody(body));
  EXPECT_TRUE(call.has_value()) << body << ": " << (call ? "" : call.error().message);
  return call ? std::move(*call) : CompletionCall{.requests = {CompletionRequest{}}};
}

// Returns the request of a body with a prompt and these fields.
CompletionRequest parse_fields(const std::string& fields) {
  return parse(R"({"prompt":"a",)" + fields + "}").requests.at(0);
}

// Returns the `param` of the error; "" if it names none, "accepted" if there is no error.
std::string refused(const std::string& body) {
  const auto call = parse_completions_call(FakeService(), ParsedBody(body));
  if (call) return "accepted";
  EXPECT_FALSE(call.error().message.empty());
  return call.error().param;
}

std::string refused_fields(const std::string& fields) {
  return refused(R"({"prompt":"a",)" + fields + "}");
}

std::string list_of(const std::string& element, size_t n) {
  std::string list = element;
  for (size_t i = 1; i < n; ++i) list += "," + element;
  return list;
}

TEST(CompletionJson, a_prompt_is_a_string_or_ids_or_several_of_one_kind) {
  EXPECT_EQ(std::get<0>(parse(R"({"prompt":"a\u00e4"})").requests.at(0).prompt), "aä");
  const std::vector<TokenId> ids = {1, 2, 4294967295};
  EXPECT_EQ(std::get<1>(parse(R"({"prompt":[1,2,4294967295]})").requests.at(0).prompt), ids);
  EXPECT_EQ(std::get<1>(parse(R"({"prompt":[[1,2,4294967295]]})").requests.at(0).prompt), ids);
  EXPECT_EQ(std::get<0>(parse(R"({"prompt":["a"]})").requests.at(0).prompt), "a");
  const CompletionCall several = parse(R"({"prompt":["a","b",[3]],"max_tokens":7})");
  ASSERT_EQ(several.requests.size(), 3u);
  EXPECT_EQ(std::get<0>(several.requests[1].prompt), "b");
  EXPECT_EQ(several.requests[2].max_tokens, 7u);
}

TEST(CompletionJson, a_wrong_prompt_is_refused_by_name) {
  for (const char* prompt :
       {"7", "true", "{}", "null", "[]", "[null]", "[1,\"a\"]", "[\"a\",1]", "[[1],2]", "[-1]",
        "[1.5]", "[4294967296]", "[[\"a\"]]", "[[[1]]]", "[1e999]"})
    EXPECT_EQ(refused(std::string(R"({"prompt":)") + prompt + "}"), "prompt") << prompt;
  EXPECT_EQ(refused("{}"), "prompt");
  EXPECT_EQ(refused(R"({"prompt":[)" + list_of("\"a\"", 1'000'000) + "]}"), "prompt");
}

TEST(CompletionJson, a_bare_prompt_gets_the_defaults) {
  const CompletionCall call = parse(R"({"prompt":"a"})");
  EXPECT_FALSE(call.is_stream);
  EXPECT_FALSE(call.include_usage);
  const CompletionRequest& request = call.requests.at(0);
  EXPECT_EQ(request.engine.sampling.temperature, 1.0f);
  EXPECT_EQ(request.n, 1u);
  EXPECT_EQ(request.max_tokens, 16u);
  EXPECT_FALSE(request.seed || request.engine.n_logprobs || request.model);
}

TEST(CompletionJson, every_field_arrives_where_it_belongs) {
  const CompletionRequest request = parse_fields(
      R"("model":"m","max_tokens":5,"min_tokens":2,"temperature":0.5,"top_p":0.25,"top_k":40,
         "min_p":0.125,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,
         "logit_bias":{"5":-100,"6":1.5},"logprobs":3,"n":2,"best_of":2,"stop":["x","y"],
         "stop_token_ids":[9],"seed":42,"ignore_eos":true,"echo":true,"return_token_ids":true)");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 5u);
  EXPECT_EQ(request.min_tokens, 2u);
  EXPECT_EQ(request.engine.sampling.temperature, 0.5f);
  EXPECT_EQ(request.engine.sampling.top_p, 0.25f);
  EXPECT_EQ(request.engine.sampling.top_k, 40u);
  EXPECT_EQ(request.engine.sampling.min_p, 0.125f);
  EXPECT_EQ(request.engine.sampling.presence_penalty, 1.0f);
  EXPECT_EQ(request.engine.sampling.frequency_penalty, -1.0f);
  EXPECT_EQ(request.engine.sampling.repetition_penalty, 1.5f);
  const std::vector<std::pair<TokenId, float>> biases = {{5, -100.0f}, {6, 1.5f}};
  EXPECT_EQ(request.engine.sampling.logit_bias, biases);
  EXPECT_EQ(request.engine.n_logprobs, 3u);
  EXPECT_EQ(request.n, 2u);
  EXPECT_EQ(request.output.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(request.engine.stop_tokens, std::vector<TokenId>{9});
  EXPECT_EQ(request.seed, 42u);
  EXPECT_TRUE(request.ignore_eos && request.output.echo && request.output.return_token_ids);
}

TEST(CompletionJson, streaming_and_its_options_are_read) {
  const CompletionCall call =
      parse(R"({"prompt":"a","stream":true,"stream_options":{"include_usage":true}})");
  EXPECT_TRUE(call.is_stream);
  EXPECT_TRUE(call.include_usage);
  EXPECT_EQ(refused_fields(R"("stream":1)"), "stream");
  EXPECT_EQ(refused_fields(R"("stream_options":[])"), "stream_options");
  EXPECT_EQ(refused_fields(R"("stream_options":{"include_usage":"yes"})"),
            "stream_options.include_usage");
}

TEST(CompletionJson, null_is_the_same_as_absent) {
  const CompletionRequest request = parse_fields(
      R"("max_tokens":null,"temperature":null,"stop":null,"seed":null,"n":null,"best_of":null,
         "logit_bias":null,"logprobs":null,"model":null,"suffix":null,"echo":null,"top_k":null)");
  EXPECT_EQ(request.engine.sampling.temperature, 1.0f);
  EXPECT_EQ(request.max_tokens, 16u);
}

TEST(CompletionJson, a_wrong_type_is_refused_by_name) {
  for (const std::string name :
       {"max_tokens", "min_tokens", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
        "frequency_penalty", "repetition_penalty", "logprobs", "prompt_logprobs", "n", "best_of",
        "seed"})
    for (const char* value : {"\"1\"", "true", "[]", "{}"})
      EXPECT_EQ(refused_fields("\"" + name + "\":" + value), name) << value;
  for (const std::string& name :
       std::vector<std::string>{"ignore_eos", "echo", "return_token_ids", "stream"})
    for (const char* value : {"\"true\"", "1", "[]"})
      EXPECT_EQ(refused_fields("\"" + name + "\":" + value), name) << value;
  for (const std::string& name :
       std::vector<std::string>{"stop", "stop_token_ids", "logit_bias", "model"})
    EXPECT_EQ(refused_fields("\"" + name + "\":7"), name);
}

TEST(CompletionJson, numbers_that_do_not_fit_are_refused_by_name) {
  for (const std::string& name : std::vector<std::string>{"max_tokens", "min_tokens", "n",
                                                          "best_of", "logprobs", "prompt_logprobs"})
    for (const char* value : {"-2", "1.5", "18446744073709551616", "1e300", "1e999"})
      EXPECT_EQ(refused_fields("\"" + name + "\":" + value), name) << value;
  EXPECT_EQ(refused_fields(R"("n":4294967296)"), "n");
  EXPECT_EQ(refused_fields(R"("top_k":-2)"), "top_k");
  EXPECT_EQ(refused_fields(R"("temperature":1e300)"), "temperature");
  EXPECT_EQ(refused_fields(R"("temperature":-1e999)"), "temperature");
  EXPECT_EQ(refused_fields(R"("seed":18446744073709551616)"), "seed");
}

TEST(CompletionJson, ranges_are_checked_by_the_service) {
  EXPECT_EQ(parse_fields(R"("n":2147483648)").n, 2147483648u);
  EXPECT_EQ(parse_fields(R"("max_tokens":9223372036854775808)").max_tokens, uint64_t{1} << 63);
  EXPECT_EQ(parse_fields(R"("max_tokens":16.0)").max_tokens, 16u);
  EXPECT_EQ(parse_fields(R"("temperature":-1)").engine.sampling.temperature, -1.0f);
  EXPECT_EQ(parse_fields(R"("temperature":1e6)").engine.sampling.temperature, 1e6f);
}

TEST(CompletionJson, seeds_are_any_64_bits_and_top_k_may_be_minus_one) {
  EXPECT_EQ(parse_fields(R"("seed":-1)").seed, UINT64_MAX);
  EXPECT_EQ(parse_fields(R"("seed":18446744073709551615)").seed, UINT64_MAX);
  EXPECT_EQ(parse_fields(R"("top_k":-1)").engine.sampling.top_k, 0u);
}

TEST(CompletionJson, lists_have_limits) {
  EXPECT_EQ(parse_fields(R"("stop":"one")").output.stop, std::vector<std::string>{"one"});
  EXPECT_EQ(parse_fields(R"("stop":[)" + list_of("\"x\"", 16) + "]").output.stop.size(), 16u);
  EXPECT_EQ(refused_fields(R"("stop":[)" + list_of("\"x\"", 17) + "]"), "stop");
  EXPECT_EQ(refused_fields(R"("stop":[)" + list_of("\"x\"", 1'000'000) + "]"), "stop");
  EXPECT_EQ(refused_fields(R"("stop":"")"), "stop");
  EXPECT_EQ(refused_fields(R"("stop":["a",7])"), "stop");
  EXPECT_EQ(refused_fields(R"("stop":")" + std::string(2000, 'x') + "\""), "stop");
  EXPECT_EQ(refused_fields(R"("stop_token_ids":[)" + list_of("1", 1'000'000) + "]"),
            "stop_token_ids");
  EXPECT_EQ(refused_fields(R"("stop_token_ids":[-1])"), "stop_token_ids");
  std::string biases = R"("0":1)";
  for (int i = 1; i < 1'000'000; ++i) biases += ",\"" + std::to_string(i) + "\":1";
  EXPECT_EQ(refused_fields(R"("logit_bias":{)" + biases + "}"), "logit_bias");
}

TEST(CompletionJson, logit_bias_maps_tokens_to_numbers_up_to_100) {
  for (const char* bias : {R"({"a":1})", R"({"":1})", R"({"-1":1})", R"({"1 ":1})",
                           R"({"4294967296":1})", R"({"99999999999999999999":1})", R"({"1":"a"})",
                           R"({"1":101})", R"({"1":-100.5})", R"({"1":1e999})", R"({"1":null})",
                           R"({"1":true})", R"([1])", R"([[1,2,3]])", R"([["",1]])", R"([[-1,1]])"})
    EXPECT_EQ(refused_fields(std::string(R"("logit_bias":)") + bias), "logit_bias") << bias;
  EXPECT_EQ(refused_fields(R"("logit_bias":[])"), "accepted");
}

TEST(CompletionJson, logit_bias_takes_ids_as_an_object_and_texts_too_as_pairs) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<std::pair<TokenId, float>> ids = {{5, 2.0f}, {7, kNever}};
  const std::vector<std::pair<std::string, float>> texts = {{"a b", -1.5f}, {"1 ", 3.0f}};
  const auto of_object = parse_fields(R"("logit_bias":{"5":2,"7":false})");
  EXPECT_EQ(of_object.engine.sampling.logit_bias, ids);
  const auto of_pairs = parse_fields(R"("logit_bias":[[5,2],["a b",-1.5],[7,false],["1 ",3]])");
  EXPECT_EQ(of_pairs.engine.sampling.logit_bias, ids);
  EXPECT_EQ(of_pairs.sampling_texts.biases, texts);
}

TEST(CompletionJson, logprobs_are_given_for_up_to_20) {
  EXPECT_EQ(parse_fields(R"("logprobs":0)").engine.n_logprobs, 0u);
  EXPECT_EQ(parse_fields(R"("logprobs":20)").engine.n_logprobs, 20u);
  EXPECT_EQ(refused_fields(R"("logprobs":21)"), "logprobs");
}

TEST(CompletionJson, logprobs_of_the_prompt_are_given_for_up_to_20_and_not_in_a_stream) {
  EXPECT_FALSE(parse_fields(R"("prompt_logprobs":null)").output.n_prompt_logprobs);
  EXPECT_EQ(parse_fields(R"("prompt_logprobs":0)").output.n_prompt_logprobs, 0u);
  EXPECT_EQ(parse_fields(R"("prompt_logprobs":20,"stream":false)").output.n_prompt_logprobs, 20u);
  EXPECT_EQ(refused_fields(R"("prompt_logprobs":21)"), "prompt_logprobs");
  EXPECT_EQ(refused_fields(R"("prompt_logprobs":1,"stream":true)"), "prompt_logprobs");
}

TEST(CompletionJson, best_of_must_equal_n) {
  EXPECT_EQ(parse_fields(R"("best_of":1)").n, 1u);
  EXPECT_EQ(refused_fields(R"("best_of":2)"), "best_of");
  EXPECT_EQ(refused_fields(R"("n":2,"best_of":1)"), "best_of");
}

TEST(CompletionJson, unsupported_fields_fail_and_unknown_ones_are_ignored) {
  EXPECT_EQ(refused_fields(R"("suffix":"x")"), "suffix");  // no tokens for it
  EXPECT_EQ(parse_fields(R"("cache_salt":"tenant")").engine.cache_salt, "tenant");
  EXPECT_EQ(refused_fields(R"("response_format":{"type":"xml"})"), "response_format.type");
  parse_fields(R"("response_format":{"type":"text"},"cache_salt":"","user":"u","cache_prompt":true,
                  "unknown":{"deep":[1,2,{}]},"priority":3)");
}

TEST(CompletionJson, what_is_no_json_object_is_refused) {
  for (const std::string& body : std::vector<std::string>{
           "", " ", "{", "{\"prompt\":\"a\"", "[]", "\"a\"", "1", "nul", "{\"prompt\":NaN}",
           "{\"prompt\":\"a\"}x", "{'prompt':'a'}", "{\"prompt\":\"\xc3\"}",
           "{\"prompt\":\"\xed\xa0\x80\"}", "{\"prompt\":\"\\ud800\"}", "{\"prompt\":\"a\",}"})
    EXPECT_EQ(refused(body), "") << body;
  EXPECT_EQ(refused(std::string(100'000, '[')), "");
  EXPECT_EQ(refused("{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}"), "");
}

}  // namespace
}  // namespace kvik
