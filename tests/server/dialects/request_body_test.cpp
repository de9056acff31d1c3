#include "server/dialects/request_body.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <string>

#include "service/request_bounds.h"

namespace kvik {
namespace {

constexpr uint64_t kContext = 2048;

Result<JsonWeight> weight_of(std::string_view text, uint64_t n_ctx) {
  ByteShare share;
  JsonBudget budget{.n_ctx = n_ctx, .share = share};
  const RequestBody body = parse_body(budget, text);
  EXPECT_TRUE(budget.has_room);
  EXPECT_EQ(share.n_bytes(), budget.fault ? share.n_bytes() : budget.weight.memory_bytes());
  if (budget.fault) return std::unexpected(*budget.fault);
  return budget.weight;
}

std::string repeated(std::string_view piece, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += piece;
  return text;
}

// Returns a body whose field is an array of `n` such elements.
std::string body_of(std::string_view field, std::string_view element, size_t n) {
  return R"({"model":"m",")" + std::string(field) + "\":[" +
         repeated(std::string(element) + ",", n - 1) + std::string(element) + "]}";
}

TEST(RequestBody, counts_values_numbers_and_text_with_the_names) {
  const Result<JsonWeight> weight =
      weight_of(R"({"a":[1,2.5,-3,18446744073709551615],"bc":"x\u00e9y",)"
                R"("d":{"e":null,"f":true}})",
                kContext);
  ASSERT_TRUE(weight.has_value());
  EXPECT_EQ(weight->n_numbers, 4u);
  EXPECT_EQ(weight->n_others, 6u);  // two objects, an array, a string, null, true
  EXPECT_EQ(weight->text_bytes, std::string("abcdefx\xc3\xa9y").size());
  EXPECT_GT(weight->memory_bytes(), 6 * weight->text_bytes);
}

TEST(RequestBody, invalid_json_weighs_its_valid_prefix) {
  for (const char* text : {"", "x", "{", R"({"a":"b)", R"({"a":1}})"}) {
    EXPECT_TRUE(weight_of(text, kContext).has_value()) << text;
  }
  EXPECT_EQ(weight_of(R"({"a":["b",x)", kContext)->n_others, 3u);
}

TEST(RequestBody, too_many_values_are_refused_by_the_field_that_has_them) {
  const size_t most = RequestBounds::values(kContext);
  for (const char* element : {"[]", "{}", "\"\"", "true", "null"}) {
    EXPECT_TRUE(weight_of(body_of("messages", element, most - 3), kContext).has_value());
    const auto refused = weight_of(body_of("messages", element, most), kContext);
    ASSERT_FALSE(refused.has_value()) << element;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "messages");
    EXPECT_NE(refused.error().message.find(std::to_string(most)), std::string::npos);
  }
}

TEST(RequestBody, too_many_numbers_are_refused_and_prompts_of_many_contexts_are_not) {
  const size_t most = RequestBounds::numbers(kContext);
  EXPECT_GE(most, 64 * kContext);
  EXPECT_TRUE(weight_of(body_of("prompt", "17", most), kContext).has_value());
  const auto refused = weight_of(body_of("prompt", "17", most + 1), kContext);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().param, "prompt");
}

TEST(RequestBody, more_text_than_a_context_holds_is_refused_as_such) {
  const size_t most = RequestBounds::text_bytes(kContext);
  const auto body = [](size_t n) { return R"({"prompt":")" + std::string(n, 'a') + "\"}"; };
  EXPECT_TRUE(weight_of(body(most - 6), kContext).has_value());
  const auto refused = weight_of(body(most + 1), kContext);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  EXPECT_EQ(refused.error().param, "prompt");
  EXPECT_TRUE(weight_of(body(most + 1), 1 << 20).has_value()) << "a longer context holds more";
}

TEST(RequestBody, a_field_keeps_its_name_through_what_is_in_it) {
  const std::string deep =
      R"({"tools":[{"x":{"y":")" + std::string(RequestBounds::text_bytes(kContext), 'a') + "\"}}]}";
  EXPECT_EQ(weight_of(deep, kContext).error().param, "tools");
  const std::string escaped =
      R"({"to\u006fls":[)" + repeated("[],", RequestBounds::values(kContext)) + "[]]}";
  EXPECT_EQ(weight_of(escaped, kContext).error().param, "tools");
  const std::string long_name = "{\"" + std::string(1000, 'n') + "\":[" +
                                repeated("[],", RequestBounds::values(kContext)) + "[]]}";
  EXPECT_LE(weight_of(long_name, kContext).error().param.size(), 64u);
}

TEST(RequestBody, arguments_of_tool_calls_are_json_in_a_string_and_weigh_as_such) {
  const auto with_arguments = [](std::string_view name, std::string_view text) {
    return R"({"messages":[{"tool_calls":[{"function":{")" + std::string(name) + "\":\"" +
           std::string(text) + "\"}}]}]}";
  };
  const uint64_t n_plain = weight_of(with_arguments("arguments", "words"), kContext)->n_others;
  const auto weight = weight_of(with_arguments("arguments", R"({\"a\":[[],[],1]})"), kContext);
  EXPECT_EQ(weight->n_others, n_plain + 4);
  EXPECT_EQ(weight->n_numbers, 1u);
  const std::string many = "[" + repeated("[],", RequestBounds::values(kContext)) + "[]]";
  EXPECT_FALSE(weight_of(with_arguments("arguments", many), kContext).has_value());
  EXPECT_FALSE(weight_of(with_arguments("argument\\u0073", many), kContext).has_value());
  EXPECT_TRUE(weight_of(with_arguments("content", many), kContext).has_value());
}

TEST(RequestBody, depth_is_limited_by_the_parser) {
  const std::string deep = R"({"a":)" + repeated("[", 60) + repeated("[],", 100'000) + "[]";
  EXPECT_FALSE(weight_of(deep, kContext).has_value());
  EXPECT_TRUE(weight_of(repeated("[", 100'000), kContext).has_value());
}

TEST(RequestBody, is_parsed_to_the_value_of_its_text) {
  ByteShare share;
  JsonBudget budget{.n_ctx = kContext, .share = share};
  constexpr std::string_view kText =
      R"({"a":[1,-2,18446744073709551615,0.5,true,false,null,"x\u00e9\n",{"b":[]}],"c":{}})";
  const RequestBody body = parse_body(budget, kText);
  ASSERT_TRUE(body.object.has_value());
  EXPECT_EQ(boost::json::value(*body.object), boost::json::parse(kText));
  EXPECT_EQ(body.text, kText);
  EXPECT_TRUE(*body.fields()->list("a") != nullptr);
}

TEST(RequestBody, that_is_not_an_object_is_rejected_by_its_reader) {
  const auto error_of = [](std::string_view text) {
    ByteShare share;
    JsonBudget budget{.n_ctx = kContext, .share = share};
    const RequestBody body = parse_body(budget, text);
    EXPECT_FALSE(budget.fault.has_value());
    return body.object ? std::string("none") : body.fields().error().message;
  };
  EXPECT_EQ(error_of("[]"), "the body must be a JSON object, not an array");
  EXPECT_EQ(error_of(""), "the body is not valid JSON: incomplete JSON");
  EXPECT_EQ(error_of("{"), "the body is not valid JSON: incomplete JSON");
  EXPECT_EQ(error_of("{x"), "the body is not valid JSON: syntax error");
  EXPECT_EQ(error_of("{} {}"), "the body is not valid JSON: extra data");
  EXPECT_EQ(error_of(R"({"a":)" + repeated("[", 100)), "the body is not valid JSON: too deep");
}

TEST(RequestBody, ends_where_the_ledger_has_no_room_for_it) {
  ByteLedger ledger(size_t{1} << 20);
  const auto has_room = [&](size_t n) {
    ByteShare share(ledger);
    JsonBudget budget{.n_ctx = kContext, .share = share};
    const std::string text = body_of("a", "null", n);
    const RequestBody body = parse_body(budget, text);
    EXPECT_EQ(body.object.has_value(), budget.has_room);
    EXPECT_FALSE(budget.fault.has_value());
    EXPECT_LE(budget.weight.n_others, 4'000u) << "it goes on without room";
    return budget.has_room;
  };
  EXPECT_TRUE(has_room(3'000));
  EXPECT_FALSE(has_room(30'000));
  EXPECT_EQ(ledger.used_bytes(), 0u);
  EXPECT_LE(ledger.take_peak_bytes(), ledger.limit_bytes());
}

}  // namespace
}  // namespace kvik
