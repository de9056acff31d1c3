#include "server/dialects/llama_cpp/native_request.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "server/fake_service.h"
#include "server/parsed_body.h"

namespace kvik {
namespace {

CompletionCall parse(const std::string& fields) {
  auto call = parse_native_call(ParsedBody(R"({"prompt":"a")" + fields + "}"));
  EXPECT_TRUE(call.has_value()) << fields << ": " << (call ? "" : call.error().message);
  return call ? std::move(*call) : CompletionCall{.requests = {CompletionRequest{}}};
}

std::string refused(const std::string& fields) {
  const auto call = parse_native_call(ParsedBody("{" + fields + "}"));
  return call ? "accepted" : call.error().param;
}

TEST(NativeRequest, has_llama_cpps_defaults) {
  const CompletionCall call = parse("");
  const CompletionRequest& request = call.requests.front();
  EXPECT_FALSE(call.is_stream);
  EXPECT_EQ(std::get<std::string>(request.prompt), "a");
  EXPECT_FALSE(request.max_tokens);
  EXPECT_FALSE(request.seed);
  EXPECT_FLOAT_EQ(request.engine.sampling.temperature, 0.8f);
  EXPECT_EQ(request.engine.sampling.top_k, 40u);
  EXPECT_FLOAT_EQ(request.engine.sampling.top_p, 0.95f);
  EXPECT_FLOAT_EQ(request.engine.sampling.min_p, 0.05f);
  EXPECT_EQ(request.engine.sampling.penalty_last_n, 64u);
  EXPECT_FALSE(request.engine.sampling.order);
}

TEST(NativeRequest, reads_llama_cpps_names) {
  const CompletionCall call = parse(
      R"(,"n_predict":7,"stream":true,"seed":5,"repeat_penalty":1.5,"n_probs":3,"stop":["x"],)"
      R"("logit_bias":[[7,1.5],[9,false]],"cache_prompt":true,"samplers":["top_k"],"id_slot":-1)");
  const CompletionRequest& request = call.requests.front();
  EXPECT_TRUE(call.is_stream);
  EXPECT_EQ(request.max_tokens, 7u);
  EXPECT_EQ(request.seed, 5u);
  EXPECT_FLOAT_EQ(request.engine.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.engine.n_logprobs, 3u);
  EXPECT_TRUE(request.output.return_token_ids);
  EXPECT_EQ(request.output.stop, std::vector<std::string>{"x"});
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const std::vector<std::pair<TokenId, float>> biases = {{7, 1.5f}, {9, kNever}};
  EXPECT_EQ(request.engine.sampling.logit_bias, biases);
}

TEST(NativeRequest, an_attestation_is_not_ignored) {
  EXPECT_TRUE(parse(R"(,"kvik":{"attest":true})").requests.front().output.attests);
  EXPECT_FALSE(parse("").requests.front().output.attests);
  EXPECT_EQ(refused(R"("prompt":"a","kvik":{"attest":1})"), "kvik.attest");
}

TEST(NativeRequest, minus_one_means_no_limit_and_a_random_seed) {
  const CompletionCall call =
      parse(R"(,"n_predict":-1,"seed":-1,"top_k":-1,"repeat_last_n":-1,"dry_penalty_last_n":-1)");
  const SamplingParams& sampling = call.requests.front().engine.sampling;
  EXPECT_EQ(sampling.top_k, 0u);
  EXPECT_EQ(sampling.penalty_last_n, UINT32_MAX);
  EXPECT_EQ(sampling.dry.last_n, UINT32_MAX);
  EXPECT_FALSE(call.requests.front().max_tokens);
  EXPECT_FALSE(call.requests.front().seed);
}

TEST(NativeRequest, reads_grammars_and_schemas) {
  EXPECT_EQ(parse(R"(,"json_schema":{"type":"string"})").requests.front().form->kind,
            StructuredOutput::Kind::kJsonSchema);
  EXPECT_EQ(parse(R"(,"grammar":"root ::= \"a\"")").requests.front().form->kind,
            StructuredOutput::Kind::kGbnf);
}

TEST(NativeRequest, wrong_values_name_their_field) {
  EXPECT_EQ(refused(""), "prompt");
  EXPECT_EQ(refused(R"("prompt":["a","b"])"), "prompt");
  EXPECT_EQ(refused(R"("prompt":"a","logit_bias":[[1]])"), "logit_bias");
  EXPECT_EQ(refused(R"("prompt":"a","logit_bias":[[1,"x"]])"), "logit_bias");
  EXPECT_EQ(refused(R"("prompt":"a","n_probs":99)"), "n_probs");
}

std::string infill_refused(const std::string& fields) {
  const auto call = parse_infill_call(FakeService(), ParsedBody("{" + fields + "}"));
  return call ? "accepted" : call.error().param + ": " + call.error().message;
}

TEST(InfillRequest, needs_both_sides_and_tokens_for_it) {
  EXPECT_EQ(infill_refused(R"("input_suffix":"b")"), "input_prefix: input_prefix is missing");
  EXPECT_EQ(infill_refused(R"("input_prefix":"a")"), "input_suffix: input_suffix is missing");
  EXPECT_EQ(infill_refused(R"("input_prefix":"a","input_suffix":"b","input_extra":[1])"),
            "input_extra: input_extra[0] must be an object with the strings \"text\" and, if "
            "given, \"filename\"");
  EXPECT_EQ(infill_refused(R"("input_prefix":"a","input_suffix":"b")"),
            "/infill: tiny/model does not support /infill: its vocabulary has no "
            "fill-in-the-middle tokens");
}

// Returns the prompt of a request as text, with special tokens.
std::string infill_prompt(const FakeService& service, const std::string& fields) {
  const auto call = parse_infill_call(service, ParsedBody("{" + fields + "}"));
  EXPECT_TRUE(call.has_value()) << call.error().message;
  std::string text;
  for (const TokenId id : std::get<std::vector<TokenId>>(call->requests.front().prompt)) {
    const auto special =
        std::ranges::find(service.specials, id, &std::pair<const std::string, TokenId>::second);
    text +=
        special == service.specials.end() ? std::string(1, static_cast<char>(id)) : special->first;
  }
  return text;
}

TEST(InfillRequest, other_files_are_those_of_a_repository_where_the_model_has_its_tokens) {
  const std::string gap = R"("input_prefix":"a","input_suffix":"b","prompt":"c")";
  const std::string files = gap + R"(,"input_extra":[{"filename":"x.py","text":"y"}])";
  FakeService service;
  service.specials = {{"<|fim_prefix|>", 200}, {"<|fim_suffix|>", 201}, {"<|fim_middle|>", 202}};
  const std::string plain = "\x01<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>c";
  EXPECT_EQ(infill_prompt(service, gap), plain);
  EXPECT_EQ(infill_prompt(service, files), "\x01x.py\ny\n" + plain.substr(1));
  service.specials["<|file_sep|>"] = 203;
  EXPECT_EQ(infill_prompt(service, files), "\x01<|file_sep|>x.py\ny\n" + plain.substr(1));
  service.specials["<|repo_name|>"] = 204;
  EXPECT_EQ(infill_prompt(service, gap), plain);
  EXPECT_EQ(
      infill_prompt(service, files),
      "\x01<|repo_name|>myproject\n<|file_sep|>x.py\ny\n<|file_sep|>filename\n" + plain.substr(1));
}

}  // namespace
}  // namespace kvik
