#include "constrain/grammar.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "constrain/grammar_matcher.h"

namespace kvik::constrain {
namespace {

std::shared_ptr<const VocabularyTrie> make_vocabulary(std::vector<std::string> words = {}) {
  for (int byte = 0; byte < 256; ++byte) words.emplace_back(1, static_cast<char>(byte));
  return std::make_shared<VocabularyTrie>(std::move(words));
}

std::shared_ptr<CompiledGrammar> compile(Builder& builder, Node start) {
  auto grammar = builder.finish(start);
  if (!grammar) ADD_FAILURE() << grammar.error().message;
  return CompiledGrammar::make(*grammar,
                               make_vocabulary({"\":", "},", "ab", "\"}", "{\"", "true"}));
}

bool takes(const std::shared_ptr<CompiledGrammar>& compiled, std::string_view text) {
  GrammarMatcher matcher = compiled->start();
  return *matcher.accept_bytes(text) == text.size() && *matcher.is_complete();
}

TEST(Grammar, any_json_value_is_read_and_nothing_else) {
  Builder builder;
  const auto json = compile(builder, builder.json_value());
  for (const std::string_view text :
       {"null", "true", "-0.5e+3", "[]", "{}", "[1,[2,{}],\"\\u00e9\\n\"]", "{\"a\":{\"b\":[]}}",
        "\"\\ud83d\\ude00\xC3\xA9\"", "{\"\":1,\"a\":2}"}) {
    EXPECT_TRUE(takes(json, text)) << text;
  }
  for (const std::string_view text :
       {"", "nul", "01", "[1,]", "{,}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}",
        "\"\\ud800\"", "\"\n\"", "\"\xC0\xAF\"", "[1", "1 ", " 1", "{\"a\" :1}"}) {
    EXPECT_FALSE(takes(json, text)) << text;
  }
}

TEST(Grammar, an_object_takes_its_properties_in_any_order_and_none_twice) {
  Builder builder;
  ObjectForm form;
  form.properties = {{U"b", builder.literal("1"), true, {}},
                     {U"a", builder.literal("2"), false, {}}};
  const auto object = compile(builder, builder.object(std::move(form)));
  EXPECT_TRUE(takes(object, R"({"a":2,"b":1})"));
  EXPECT_TRUE(takes(object, R"({"b":1,"a":2})"));
  EXPECT_TRUE(takes(object, R"({"b":1})"));
  EXPECT_FALSE(takes(object, R"({"a":2})"));
  EXPECT_FALSE(takes(object, R"({"b":1,"b":1})"));
  EXPECT_FALSE(takes(object, R"({"b":1,"c":1})"));
}

TEST(Grammar, a_rule_nests_as_deep_as_the_text_does) {
  Builder builder;
  const Node nested = builder.rule("nested");
  const Node inside = builder.sequence(
      std::array{builder.literal("("), builder.repeat(nested, 0, RegularPool::kUnbounded),
                 builder.literal(")")});
  builder.define(nested, inside);
  const auto brackets = compile(builder, nested);
  EXPECT_TRUE(takes(brackets, "(()(()))"));
  EXPECT_FALSE(takes(brackets, "(()"));
  const std::string deep = std::string(20'000, '(') + std::string(20'000, ')');
  EXPECT_TRUE(takes(brackets, deep));
}

TEST(Grammar, a_rule_that_begins_with_itself_is_refused_by_its_name) {
  Builder builder;
  const Node rule = builder.rule("sum");
  builder.define(
      rule, builder.choice(std::array{builder.sequence(std::array{rule, builder.literal("+1")}),
                                      builder.literal("1")}));
  const auto grammar = builder.finish(rule);
  ASSERT_FALSE(grammar);
  EXPECT_EQ(grammar.error().message,
            "rule sum begins with itself; expected a character before it does");
}

TEST(Grammar, the_mask_has_the_tokens_that_accept_takes) {
  Builder builder;
  const auto json = compile(builder, builder.json_value());
  std::optional<GrammarMatcher> matcher(json->start());
  std::mt19937 random(7);
  TokenBitmask mask(json->vocabulary().n_vocab());
  for (int step = 0; step < 2000; ++step) {
    ASSERT_TRUE(matcher->mask(mask));
    GrammarMatcher copy = *matcher;
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < json->vocabulary().n_vocab(); ++id) {
      const bool bit = mask.allows(id);
      ASSERT_EQ(*copy.accept(id), bit) << id << " at step " << step;
      if (bit) copy.roll_back(1);
      ASSERT_EQ(*matcher->allows(id), bit);
      if (bit) allowed.push_back(id);
    }
    if (allowed.empty()) {
      EXPECT_TRUE(*matcher->is_complete());
      matcher.emplace(json->start());
      continue;
    }
    ASSERT_TRUE(*matcher->accept(allowed[random() % allowed.size()]));
  }
}

TEST(Grammar, what_must_follow_is_known_before_it_is_asked_for) {
  Builder builder;
  ObjectForm form;
  form.properties = {
      {U"caf\u00e9 name", builder.json_string(builder.regulars().any_text()), true, {}}};
  const auto object = compile(builder, builder.object(std::move(form)));
  EXPECT_EQ(*object->start().forced_bytes(100), "{\"caf\xC3\xA9 name\":\"");
}

TEST(Grammar, rolled_back_tokens_were_never_there) {
  Builder builder;
  const auto json = compile(builder, builder.json_value());
  GrammarMatcher matcher = json->start();
  ASSERT_EQ(*matcher.accept_bytes("[1"), 2u);
  ASSERT_EQ(*matcher.accept_bytes(",2]"), 3u);
  EXPECT_TRUE(*matcher.is_complete());
  matcher.roll_back(1);
  EXPECT_FALSE(*matcher.is_complete());
  EXPECT_EQ(*matcher.accept_bytes("]"), 1u);
  EXPECT_TRUE(*matcher.is_complete());
}

}  // namespace
}  // namespace kvik::constrain
