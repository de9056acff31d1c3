#include "base/json/json.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

using Kind = Json::Kind;

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = parse_json(text, limits);
  return json ? "" : json.error().message;
}

TEST(Json, values_are_of_the_kind_that_the_text_says) {
  const auto json = parse_json(R"( [null, false, true, 1, -2.5, "a", [], {}] )");
  ASSERT_TRUE(json.has_value());
  const Kind kinds[] = {Kind::kNull,   Kind::kFalse,  Kind::kTrue,  Kind::kNumber,
                        Kind::kNumber, Kind::kString, Kind::kArray, Kind::kObject};
  ASSERT_EQ(json->size(), std::size(kinds));
  for (size_t i = 0; i < json->size(); ++i) EXPECT_TRUE((*json)[i].is(kinds[i])) << i;
  EXPECT_TRUE((*json)[1].is_bool() && (*json)[2].is_bool() && !(*json)[0].is_bool());
}

TEST(Json, numbers_are_written_as_they_were_read) {
  for (const std::string text :
       {"0", "-1", "-0", "1.0", "1.50", "1e5", "0.1234567890123456789", "9223372036854775807",
        "9223372036854775808", "-9223372036854775809", "1e400", "123456789012345678901234567890"}) {
    EXPECT_EQ(parse_json(text)->number_text(), text);
  }
  EXPECT_EQ(parse_json("9223372036854775807")->value, Json{INT64_MAX}.value);
  EXPECT_EQ(parse_json("-1.5e2")->number(), -150);
  EXPECT_EQ(parse_json("1e400")->number(), std::nullopt);
  EXPECT_EQ(Json{0.5}.number_text(), "0.5");
  EXPECT_EQ(parse_json("\"1\"")->number(), std::nullopt);
}

TEST(Json, members_keep_their_order_and_the_last_of_one_name_counts) {
  const auto json = parse_json(R"({"b":1,"a":{"c":2},"\u0062":3})");
  ASSERT_TRUE(json.has_value());
  ASSERT_EQ(json->fields().size(), 2u);
  EXPECT_EQ(json->fields()[0].name, "b");
  EXPECT_EQ(*json->find("b"), Json{int64_t{3}});
  EXPECT_EQ(*json->find("a")->find("c"), Json{int64_t{2}});
  EXPECT_EQ(json->find("c"), nullptr);
  EXPECT_EQ(json->find("b")->find("c"), nullptr) << "a number has no members";
}

TEST(Json, strings_are_utf8_with_their_escapes_read) {
  EXPECT_EQ(parse_json(R"("\"\\\/\b\f\n\r\t\u0000é\u20AC\ud83d\ude00")")->text(),
            std::string("\"\\/\b\f\n\r\t\0é€\xf0\x9f\x98\x80", 18));
  // An unpaired surrogate, a byte that is invalid in UTF-8, and a control character.
  EXPECT_EQ(error_of(R"("a\udc00")"), "not JSON at byte 5: expected a string's character");
  EXPECT_EQ(error_of(R"("\ud800\u0041")"), "not JSON at byte 9: expected a string's character");
  EXPECT_EQ(error_of(R"("\ud800")"), "not JSON at byte 7: expected a string's character");
  EXPECT_EQ(error_of("\"\xff\""), "not JSON at byte 1: expected a string's character");
  EXPECT_EQ(error_of("\"\xe2\x82\""), "not JSON at byte 3: expected a string's character");
  EXPECT_EQ(error_of("\"\n\""), "not JSON at byte 1: expected a string's character");
}

TEST(Json, errors_name_the_byte_and_what_belongs_there) {
  const std::pair<const char*, const char*> errors[] = {
      {"", "not JSON at byte 0: expected a value"},
      {"[1,]", "not JSON at byte 3: expected a value"},
      {"[1 2]", "not JSON at byte 3: expected a comma or ]"},
      {R"({"a" 1})", "not JSON at byte 5: expected a colon"},
      {R"({"a":1,})", "not JSON at byte 7: expected a name"},
      {R"({"a":1)", "not JSON at byte 6: expected a comma or }"},
      {"01", "not JSON at byte 2: expected a value"},
      {"1.", "not JSON at byte 2: expected a digit"},
      {"1e+", "not JSON at byte 3: expected a digit"},
      {"nul", "not JSON at byte 0: expected null"},
      {"\"a", "not JSON at byte 2: expected a quote"},
      {"\"\\u12", "not JSON at byte 5: expected a quote"},
      {"{} 1", "not JSON at byte 3: expected the end"},
  };
  for (const auto& [text, message] : errors) EXPECT_EQ(error_of(text), message) << text;
}

TEST(Json, limits_hold_for_bytes_values_and_depth) {
  const JsonLimits limits{.max_bytes = 12, .max_values = 4, .max_depth = 2};
  EXPECT_EQ(error_of("[[1,2]]", limits), "");
  EXPECT_EQ(error_of("[1,2,3,4]", limits), "the JSON has over 4 values");
  EXPECT_EQ(error_of("[[[[]]]]", limits), "the JSON is nested over 2 levels deep");
  EXPECT_EQ(error_of("[          1]", limits), "the JSON has 13 bytes; expected at most 12");
}

}  // namespace
}  // namespace kvik
