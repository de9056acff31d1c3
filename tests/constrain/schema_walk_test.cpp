// Follows random texts of schemas whose items are compared: every prefix can end or continue.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>

#include "constrain/grammar_matcher.h"
#include "constrain/json_schema.h"

namespace kvik::constrain {
namespace {

using Language = SchemaOptions::Language;

std::shared_ptr<CompiledGrammar> compiled_of(std::string_view schema, Language language) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  auto made = compile_json_schema(schema, {.limits = {}, .whitespace = {}, .language = language});
  if (!made) {
    ADD_FAILURE() << schema << ": " << made.error().message;
    return nullptr;
  }
  return CompiledGrammar::make(std::move(made->grammar),
                               std::make_shared<VocabularyTrie>(std::move(tokens)));
}

bool takes(std::string_view schema, std::string_view text, Language language) {
  GrammarMatcher matcher = compiled_of(schema, language)->start();
  return *matcher.accept_bytes(text) == text.size() && *matcher.is_complete();
}

std::string next_after(std::string_view schema, std::string_view text, Language language) {
  GrammarMatcher matcher = compiled_of(schema, language)->start();
  EXPECT_EQ(*matcher.accept_bytes(text), text.size());
  return *matcher.next_bytes();
}

// Follows a random text that prefers some bytes, so that it becomes long. Returns the text at which
// no continuation exists, or an empty string.
std::string stuck_text(const CompiledGrammar& compiled, uint32_t seed) {
  constexpr std::array<std::string_view, 4> kPreferred = {"[]{}\",:0123456789eE+-.tfn", "[],0e1-.",
                                                          "[]\",a{}:b1", "[],0123456789e-.E+"};
  std::mt19937 random(seed);
  const std::string_view preferred = kPreferred[random() % kPreferred.size()];
  GrammarMatcher matcher = compiled.start();
  std::string said;
  while (said.size() < 100) {
    const std::string next = *matcher.next_bytes();
    if (next.empty()) return *matcher.is_complete() ? "" : said;
    std::string some;
    for (const char c : next) {
      if (preferred.contains(c)) some += c;
    }
    if (some.empty() || random() % 16 == 0) some = next;
    said += some[random() % some.size()];
    EXPECT_EQ(*matcher.accept_bytes(std::string_view(said).substr(said.size() - 1)), 1u) << said;
  }
  return "";
}

TEST(SchemaWalk, there_is_always_a_way_on) {
  constexpr std::array<std::string_view, 14> kSchemas = {
      R"({"not":{"uniqueItems":true},"maxItems":2})",
      R"({"not":{"uniqueItems":true},"maxItems":3})",
      R"({"not":{"uniqueItems":true},"maxItems":2,"items":{"type":"number"}})",
      R"({"not":{"uniqueItems":true},"maxItems":2,"items":{"type":"array"}})",
      R"({"not":{"uniqueItems":true},"maxItems":4,"items":{"type":"number"},
          "prefixItems":[{"type":"string"},{"type":"number"}]})",
      R"({"not":{"uniqueItems":true},"maxItems":2,"prefixItems":[{"type":"integer"}],
          "items":{"type":"number"}})",
      R"({"not":{"uniqueItems":true},"maxItems":2,"items":{"type":"object",
          "properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["b"]}})",
      R"({"not":{"uniqueItems":true},"maxItems":2,"type":"array",
          "prefixItems":[{"type":"object","properties":{"a":{"type":"number"}}}],
          "items":{"type":"object","properties":{"b":{"type":"number"}}}})",
      R"({"type":"array","items":{"type":"array","maxItems":2,"not":{"uniqueItems":true},
          "items":{"type":"number"}},"not":{"uniqueItems":true},"maxItems":2})",
      R"({"type":"array","uniqueItems":true,"items":{"type":"object","properties":
          {"a":{"enum":[1]},"b":{"enum":[1]},"c":{"enum":[1]}},"additionalProperties":false}})",
      R"({"type":"array","uniqueItems":true,"items":{"type":"number","maximum":5}})",
      R"({"type":"array","uniqueItems":true,"items":{"type":"number","minimum":0,"maximum":5}})",
      R"({"type":"array","uniqueItems":true,"items":{"type":"array","maxItems":1,
          "items":{"type":"number","maximum":5}}})",
      R"({"type":"array","uniqueItems":true,"items":{"type":"number"}})"};
  for (const Language language : {Language::kCanonical, Language::kFull}) {
    for (const std::string_view schema : kSchemas) {
      const auto compiled = compiled_of(schema, language);
      ASSERT_TRUE(compiled);
      for (uint32_t seed = 0; seed < 15; ++seed) {
        EXPECT_EQ(stuck_text(*compiled, seed), "") << schema;
      }
    }
  }
}

TEST(SchemaWalk, a_bounded_number_can_be_repeated_however_it_is_written) {
  const std::string_view two =
      R"({"type":"array","not":{"uniqueItems":true},"maxItems":2,"items":{"type":"number"}})";
  const auto takes_pair = [&](std::string_view a, std::string_view b) {
    return takes(two, "[" + std::string(a) + "," + std::string(b) + "]", Language::kCanonical);
  };
  EXPECT_TRUE(takes_pair("1e3", "1000"));
  EXPECT_TRUE(takes_pair("11e41", "11e41"));
  EXPECT_TRUE(takes_pair("11e41", "1.1e42"));
  EXPECT_TRUE(takes_pair("-1.25e-40", "-125E-42"));
  EXPECT_TRUE(takes_pair("0.00000000000000001e-289", "0.00000000000000001e-289"));
  EXPECT_TRUE(takes_pair("10000000000000000e289", "10000000000000000e289"));
  EXPECT_FALSE(takes_pair("11e41", "12e41"));
  EXPECT_FALSE(takes_pair("11e41", "-11e41"));
}

TEST(SchemaWalk, compared_objects_keep_the_order_of_the_schema) {
  const std::string_view unique =
      R"({"type":"array","uniqueItems":true,"items":
          {"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}}}})";
  EXPECT_TRUE(takes(unique, R"([{"b":1,"a":2},{"b":1,"a":3}])", Language::kCanonical));
  EXPECT_FALSE(takes(unique, R"([{"a":2,"b":1}])", Language::kCanonical));
  EXPECT_TRUE(takes(unique, R"([{"a":2,"b":1}])", Language::kFull));
  const std::string_view few =
      R"({"type":"array","uniqueItems":true,"items":
          {"type":"object","properties":{"a":{"enum":[1]},"b":{"enum":[1]}}}})";
  EXPECT_EQ(next_after(few, R"([{},{"a":1},{"a":1,"b":1},{")", Language::kCanonical), R"(\b)");
  EXPECT_EQ(next_after(few, R"([{},{"b":1},{"a":1,"b":1},{"a":1)", Language::kCanonical), "}");
}

TEST(SchemaWalk, an_object_that_must_repeat_is_written_in_order) {
  const std::string_view two =
      R"({"type":"array","not":{"uniqueItems":true},"maxItems":2,"items":
          {"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}}}})";
  EXPECT_TRUE(takes(two, R"([{"b":1,"a":2},{"b":1,"a":2}])", Language::kCanonical));
  EXPECT_EQ(next_after(two, R"([{"b":1,"a":2},{")", Language::kCanonical), R"(\b)");
  EXPECT_EQ(next_after(two, R"([{"a":2},{")", Language::kCanonical), R"(\a)");
  EXPECT_EQ(next_after(two, R"([{"b":1,"a":2},{")", Language::kFull), R"(\ab)");
}

TEST(SchemaWalk, items_of_different_schemas_repeat_in_the_words_of_both) {
  const std::string_view both =
      R"({"type":"array","not":{"uniqueItems":true},"maxItems":2,
          "prefixItems":[{"type":"object","properties":{"a":{"type":"integer"}}}],
          "items":{"type":"object","properties":{"b":{"type":"integer"}}}})";
  EXPECT_TRUE(takes(both, R"([{"a":1,"b":2},{"a":1,"b":2}])", Language::kCanonical));
  EXPECT_FALSE(takes(both, R"([{"a":1,"b":2},{"a":1,"b":3}])", Language::kCanonical));
  const std::string_view numbers =
      R"({"type":"array","not":{"uniqueItems":true},"maxItems":2,
          "prefixItems":[{"type":"integer"}],"items":{"type":"number"}})";
  EXPECT_TRUE(takes(numbers, "[1234567890123456789,1234567890123456789]", Language::kCanonical));
}

}  // namespace
}  // namespace kvik::constrain
