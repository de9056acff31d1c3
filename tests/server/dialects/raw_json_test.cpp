#include "server/dialects/raw_json.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <random>
#include <string>

namespace kvik {
namespace {

TEST(RawJson, a_value_is_found_by_its_path_as_it_is_written) {
  constexpr std::string_view kBody =
      R"( {"a" : {"b":[1, {"c":"}"}],"c": {"d" :  1.50e+00 , "e":"x\"}"}}, "c":null,"last":true})";
  EXPECT_EQ(raw_value(kBody, "a.c.d"), "1.50e+00");
  EXPECT_EQ(raw_value(kBody, "a.c.e"), R"("x\"}")");
  EXPECT_EQ(raw_value(kBody, "a.b"), R"([1, {"c":"}"}])");
  EXPECT_EQ(raw_value(kBody, "c"), "null");
  EXPECT_EQ(raw_value(kBody, "last"), "true");
  EXPECT_EQ(raw_value(kBody, "a.c"), R"({"d" :  1.50e+00 , "e":"x\"}"})");
}

TEST(RawJson, what_is_not_there_is_empty) {
  for (const char* path : {"b", "a.b", "a.a.a", "d.e"}) {
    EXPECT_EQ(raw_value(R"({"a":{"c":1},"d":[{"e":1}]})", path), "") << path;
  }
  EXPECT_EQ(raw_value("{}", "a"), "");
  EXPECT_EQ(raw_value("", "a"), "");
}

TEST(RawJson, of_members_of_one_name_the_last_counts_however_it_is_spelled) {
  EXPECT_EQ(raw_value(R"({"a":1,"\u0061":2})", "a"), "2");
  EXPECT_EQ(raw_value(R"({"a":{"b":1},"a":{"b":2}})", "a.b"), "2");
}

// Compares with Boost.JSON, an independent parser.
TEST(RawJson, is_the_value_that_boost_reads) {
  std::mt19937 random(7);
  const auto pick = [&](size_t n) { return random() % n; };
  const auto blank = [&] { return std::string(pick(3), " \t\n"[pick(3)]); };
  const auto value = [&](auto&& self, size_t depth) -> std::string {
    constexpr const char* kPlain[] = {"null",         "-0.5e3", R"("")", R"("a\\\"]}")",
                                      R"("\u007b,")", "[]",     "{}",    "false"};
    if (depth == 0 || pick(4) == 0) return kPlain[pick(std::size(kPlain))];
    const bool is_array = pick(2) == 0;
    std::string text = is_array ? "[" : "{";
    for (size_t i = 0, n = pick(4); i < n; ++i) {
      if (i > 0) text += ",";
      text += blank();
      if (!is_array) text += std::string(1, '"') + "abc"[pick(3)] + "\"" + blank() + ":" + blank();
      text += self(self, depth - 1) + blank();
    }
    return text + (is_array ? "]" : "}");
  };
  for (int i = 0; i < 3000; ++i) {
    const std::string body = blank() + R"({"a":)" + blank() + value(value, 4) + blank() +
                             R"(,"b":{"c":)" + value(value, 3) + "}" + blank() + "}";
    const auto parsed = boost::json::parse(body);
    for (const auto& [path, pointer] : {std::pair("a", "/a"), {"b", "/b"}, {"b.c", "/b/c"}}) {
      const auto raw = boost::json::parse(raw_value(body, path));
      EXPECT_EQ(boost::json::serialize(raw), boost::json::serialize(parsed.at_pointer(pointer)))
          << body;
    }
  }
}

}  // namespace
}  // namespace kvik
