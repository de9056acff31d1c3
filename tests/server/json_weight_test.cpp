#include "server/dialects/json_weight.h"

#include <gtest/gtest.h>

#include <string>

#include "service/request_bounds.h"

namespace kvik {
namespace {

constexpr uint64_t kContext = 2048;

std::string repeated(std::string_view piece, size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += piece;
  return text;
}

// A body whose field holds so many of that element.
std::string body_of(std::string_view field, std::string_view element, size_t n) {
  return R"({"model":"m",")" + std::string(field) + "\":[" +
         repeated(std::string(element) + ",", n - 1) + std::string(element) + "]}";
}

TEST(JsonWeight, counts_values_numbers_and_text_with_the_names) {
  const auto weight = weigh_json(R"({"a":[1,2.5,-3,18446744073709551615],"bc":"x\u00e9y",)"
                                 R"("d":{"e":null,"f":true}})",
                                 kContext);
  ASSERT_TRUE(weight.has_value());
  EXPECT_EQ(weight->n_numbers, 4u);
  EXPECT_EQ(weight->n_others, 6u);  // two objects, an array, a string, null, true
  EXPECT_EQ(weight->text_bytes, std::string("abcdefx\xc3\xa9y").size());
  EXPECT_GT(weight->memory_bytes(), 6 * weight->text_bytes);
}

TEST(JsonWeight, what_is_no_json_weighs_what_comes_before_it_breaks_off) {
  for (const char* text : {"", "x", "{", R"({"a":"b)", R"({"a":1}})"}) {
    EXPECT_TRUE(weigh_json(text, kContext).has_value()) << text;
  }
  EXPECT_EQ(weigh_json(R"({"a":["b",x)", kContext)->n_others, 3u);
}

TEST(JsonWeight, too_many_values_are_refused_by_the_field_that_has_them) {
  const size_t most = RequestBounds::values(kContext);
  for (const char* element : {"[]", "{}", "\"\"", "true", "null"}) {
    EXPECT_TRUE(weigh_json(body_of("messages", element, most - 3), kContext).has_value());
    const auto refused = weigh_json(body_of("messages", element, most), kContext);
    ASSERT_FALSE(refused.has_value()) << element;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().param, "messages");
    EXPECT_NE(refused.error().message.find(std::to_string(most)), std::string::npos);
  }
}

TEST(JsonWeight, too_many_numbers_are_refused_and_prompts_of_many_contexts_are_not) {
  const size_t most = RequestBounds::numbers(kContext);
  EXPECT_GE(most, 64 * kContext);
  EXPECT_TRUE(weigh_json(body_of("prompt", "17", most), kContext).has_value());
  const auto refused = weigh_json(body_of("prompt", "17", most + 1), kContext);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().param, "prompt");
}

TEST(JsonWeight, more_text_than_a_context_holds_is_refused_as_such) {
  const size_t most = RequestBounds::text_bytes(kContext);
  const auto body = [](size_t n) { return R"({"prompt":")" + std::string(n, 'a') + "\"}"; };
  EXPECT_TRUE(weigh_json(body(most - 6), kContext).has_value());
  const auto refused = weigh_json(body(most + 1), kContext);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kContextLength);
  EXPECT_EQ(refused.error().param, "prompt");
  EXPECT_TRUE(weigh_json(body(most + 1), 1 << 20).has_value()) << "a longer context holds more";
}

TEST(JsonWeight, a_field_keeps_its_name_through_what_is_in_it) {
  const std::string deep =
      R"({"tools":[{"x":{"y":")" + std::string(RequestBounds::text_bytes(kContext), 'a') + "\"}}]}";
  EXPECT_EQ(weigh_json(deep, kContext).error().param, "tools");
  const std::string escaped =
      R"({"to\u006fls":[)" + repeated("[],", RequestBounds::values(kContext)) + "[]]}";
  EXPECT_EQ(weigh_json(escaped, kContext).error().param, "tools");
  const std::string long_name = "{\"" + std::string(1000, 'n') + "\":[" +
                                repeated("[],", RequestBounds::values(kContext)) + "[]]}";
  EXPECT_LE(weigh_json(long_name, kContext).error().param.size(), 64u);
}

TEST(JsonWeight, arguments_of_tool_calls_are_json_in_a_string_and_weigh_as_such) {
  const auto with_arguments = [](std::string_view name, std::string_view text) {
    return R"({"messages":[{"tool_calls":[{"function":{")" + std::string(name) + "\":\"" +
           std::string(text) + "\"}}]}]}";
  };
  const uint64_t n_plain = weigh_json(with_arguments("arguments", "words"), kContext)->n_others;
  const auto weight = weigh_json(with_arguments("arguments", R"({\"a\":[[],[],1]})"), kContext);
  EXPECT_EQ(weight->n_others, n_plain + 4);
  EXPECT_EQ(weight->n_numbers, 1u);
  const std::string many = "[" + repeated("[],", RequestBounds::values(kContext)) + "[]]";
  EXPECT_FALSE(weigh_json(with_arguments("arguments", many), kContext).has_value());
  EXPECT_FALSE(weigh_json(with_arguments("argument\\u0073", many), kContext).has_value());
  EXPECT_TRUE(weigh_json(with_arguments("content", many), kContext).has_value());
}

TEST(JsonWeight, depth_is_the_readers_business_and_no_way_around) {
  const std::string deep = R"({"a":)" + repeated("[", 60) + repeated("[],", 100'000) + "[]";
  EXPECT_FALSE(weigh_json(deep, kContext).has_value());
  EXPECT_TRUE(weigh_json(repeated("[", 100'000), kContext).has_value());
}

}  // namespace
}  // namespace kvik
