#include "server/dialects/sampler_fields.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/dialects/llama_cpp/native_request.h"
#include "server/parsed_body.h"

namespace kvik {
namespace {

using Kind = SamplerKind;
using Order = std::vector<SamplerKind>;

Result<CompletionCall> parse(const std::string& fields) {
  return parse_native_call(ParsedBody(R"({"prompt":"a",)" + fields + "}"));
}

CompletionRequest request_of(const std::string& fields) {
  auto call = parse(fields);
  EXPECT_TRUE(call.has_value()) << (call ? "" : call.error().message);
  return call ? std::move(call->requests.front()) : CompletionRequest{};
}

std::string error_of(const std::string& fields) {
  const auto call = parse(fields);
  return call ? "accepted" : call.error().param + ": " + call.error().message;
}

TEST(SamplerFields, the_order_is_given_by_names_or_letters) {
  const Order expected = {Kind::kDry, Kind::kTypicalP, Kind::kTemperature, Kind::kTopK};
  EXPECT_EQ(request_of(R"("samplers":["dry","typ_p","temperature","top_k"])").engine.sampling.order,
            expected);
  EXPECT_EQ(request_of(R"("samplers":["dry","typical_p","temp","top-k"])").engine.sampling.order,
            expected);
  EXPECT_EQ(request_of(R"("samplers":"dytk")").engine.sampling.order, expected);
  EXPECT_EQ(request_of(R"("samplers":[])").engine.sampling.order, Order());
  const Order all = {Kind::kPenalties, Kind::kDry,      Kind::kTopNSigma,
                     Kind::kTopK,      Kind::kTypicalP, Kind::kTopP,
                     Kind::kMinP,      Kind::kXtc,      Kind::kTemperature};
  // A client's default list has a sampler that is off.
  EXPECT_EQ(request_of(R"("samplers":["penalties","dry","top_n_sigma","top_k","typ_p","top_p",)"
                       R"("min_p","xtc","temperature","adaptive_p"],"adaptive_target":-1)")
                .engine.sampling.order,
            all);
  EXPECT_EQ(request_of(R"("samplers":"edskypmxt")").engine.sampling.order, all);
}

TEST(SamplerFields, an_unknown_sampler_is_named) {
  const std::string known =
      "expected penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc and temperature";
  EXPECT_EQ(error_of(R"("samplers":["top_k","quadratic"])"),
            "samplers: samplers holds 'quadratic', " + known);
  EXPECT_EQ(error_of(R"("samplers":"k?")"), "samplers: samplers holds '?', " + known);
  EXPECT_EQ(error_of(R"("samplers":7)"),
            "samplers: samplers must be an array of names or a string of letters, not a number");
  EXPECT_EQ(error_of(R"("samplers":[7])"),
            "samplers: samplers must be an array of names or a string of letters, not a number");
  EXPECT_EQ(error_of(R"("samplers":")" + std::string(33, 'k') + "\""),
            "samplers: samplers holds 33 samplers, at most 32 are allowed");
  EXPECT_EQ(error_of(R"("adaptive_target":0.5)"),
            "adaptive_target: adaptive_target is 0.5, expected a negative number: the adaptive_p "
            "sampler is not supported");
}

TEST(SamplerFields, counts_may_be_minus_one_and_not_less) {
  EXPECT_EQ(error_of(R"("repeat_last_n":-2)"),
            "repeat_last_n: repeat_last_n is -2, expected an integer of at least -1");
  EXPECT_EQ(error_of(R"("mirostat":-1)").substr(0, 9), "mirostat:");
}

TEST(SamplerFields, banned_texts_and_tokens_have_the_names_of_several_servers) {
  const CompletionRequest request =
      request_of(R"("bad_words":["a","b c"],"banned_strings":["d"],"banned_tokens":[7,9])");
  EXPECT_EQ(request.sampling_texts.banned, (std::vector<std::string>{"a", "b c", "d"}));
  EXPECT_EQ(request.engine.sampling.banned, (std::vector<std::vector<TokenId>>{{7}, {9}}));
  EXPECT_EQ(error_of(R"("bad_words":"a")"), "bad_words: bad_words must be an array, not a string");
  EXPECT_EQ(error_of(R"("bad_words":[7])"),
            "bad_words: bad_words must be an array of strings, not a number");
  EXPECT_EQ(error_of(R"("banned_strings":[""])"),
            "banned_strings: banned_strings holds a text of 0 bytes, expected 1 to 256");
  EXPECT_EQ(error_of(R"("banned_tokens":["a"])").substr(0, 14), "banned_tokens:");
}

TEST(SamplerFields, dry_breakers_are_the_default_ones_unless_given) {
  EXPECT_FALSE(request_of(R"("dry_multiplier":0.8)").sampling_texts.dry_breakers);
  EXPECT_EQ(request_of(R"("dry_sequence_breakers":["\n","*"])").sampling_texts.dry_breakers,
            (std::vector<std::string>{"\n", "*"}));
  EXPECT_EQ(error_of(R"("dry_sequence_breakers":[")" + std::string(41, 'x') + "\"]"),
            "dry_sequence_breakers: dry_sequence_breakers holds a text of 41 bytes, expected 1 to "
            "40");
}

}  // namespace
}  // namespace kvik
