#include "constrain/pattern/pattern.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "support/grammar_texts.h"

namespace kvik::constrain {
namespace {

using Options = PatternOptions;

bool matches(std::string_view expression, std::string_view text, const Options& options = {}) {
  Builder builder;
  const auto parsed = parse_pattern(builder.regulars(), expression, options);
  EXPECT_TRUE(parsed.has_value()) << expression << ": " << parsed.error().message;
  if (!parsed || *parsed == Regular::kNothing) return false;
  if (*parsed == Regular::kEmptyText) return text.empty();
  auto grammar = builder.finish(builder.text(*parsed));
  EXPECT_TRUE(grammar.has_value()) << expression;
  return grammar && GrammarTexts(*grammar).has(text);
}

bool finds(std::string_view expression, std::string_view text) {
  return matches(expression, text, {.extent = Options::Extent::kSearch});
}

std::string refusal(std::string_view expression) {
  RegularPool pool(100'000);
  const auto parsed = parse_pattern(pool, expression, {});
  EXPECT_FALSE(parsed.has_value()) << expression;
  return parsed ? "" : parsed.error().message;
}

TEST(Pattern, matches_a_text_from_its_beginning_to_its_end) {
  EXPECT_TRUE(matches("ab", "ab"));
  EXPECT_FALSE(matches("ab", "abc"));
  EXPECT_FALSE(matches("ab", "xab"));
  EXPECT_TRUE(matches("^ab$", "ab"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("a|b||c", "c"));
  EXPECT_TRUE(matches("a|b||c", ""));
  EXPECT_TRUE(matches("(?:ab|c)(?<name>d)(?P<other>e)", "cde"));
}

TEST(Pattern, repeats) {
  EXPECT_TRUE(matches("a*b+c?", "aabb"));
  EXPECT_FALSE(matches("a*b+c?", "aac"));
  for (const auto& [text, is_in] :
       {std::pair{"a", false}, {"aa", true}, {"aaa", true}, {"aaaa", false}})
    EXPECT_EQ(matches("a{2,3}", text), is_in) << text;
  EXPECT_TRUE(matches("a{2}", "aa"));
  EXPECT_TRUE(matches("a{2,}", "aaaaa"));
  EXPECT_TRUE(matches("(ab){2}c", "ababc"));
  EXPECT_TRUE(matches("a+?b*?c??", "aab")) << "laziness is of no account";
  EXPECT_TRUE(matches("a{,2}", "a{,2}")) << "as ECMAScript has it";
  EXPECT_TRUE(matches("(a*)*b", "aaab"));
}

TEST(Pattern, knows_classes_of_characters) {
  EXPECT_TRUE(matches("[a-cx]+", "abxc"));
  EXPECT_FALSE(matches("[^a-c]", "b"));
  EXPECT_TRUE(matches("[^a-c]", "\n"));
  EXPECT_TRUE(matches(R"([\]\-\\^]+)", R"(]-\^)"));
  EXPECT_TRUE(matches("[-a]+[a-]+", "-a-"));
  EXPECT_TRUE(matches(R"([\w-]+)", "a-b_9"));
  EXPECT_TRUE(matches(R"(\d\D\w\W\s\S)", "1a_- x"));
  EXPECT_FALSE(matches(R"(\d)", "\xD9\xA3")) << "digits are ASCII";
  EXPECT_TRUE(matches(R"(\s)", "\xE3\x80\x80")) << "an ideographic space";
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches(".", "\n", {.dot = Options::Dot::kAny}));
  EXPECT_FALSE(matches("[]", "a")) << "no character at all";
  EXPECT_TRUE(matches("[^]", "a")) << "any";
}

TEST(Pattern, knows_unicode) {
  EXPECT_TRUE(matches(".", "\xF0\x9F\x8E\x89"));
  EXPECT_TRUE(matches("[\xC3\xA9-\xC3\xAB]", "\xC3\xAA"));
  EXPECT_TRUE(matches(R"(\p{Lu}\p{L}+)", "\xC3\x89t\xC3\xA9"));
  EXPECT_FALSE(matches(R"(\P{L})", "x"));
  EXPECT_TRUE(matches(R"(\p{Script=Greek}\p{Greek})", "\xCE\xB1\xCE\xB2"));
  EXPECT_TRUE(matches(R"(é\u{1F389}\uD83C\uDF89\x41\u0042\cJ\0)",
                      std::string("\xC3\xA9\xF0\x9F\x8E\x89\xF0\x9F\x8E\x89"
                                  "AB\n\0",
                                  14)));
}

TEST(Pattern, the_case_of_letters_may_be_of_no_account) {
  EXPECT_TRUE(matches("aB[c-d]\xC3\xA9", "AbC\xC3\x89", {.letters = Options::Letters::kCaseless}));
  EXPECT_TRUE(matches("a(?i)b(?-i)c", "aBc"));
  EXPECT_FALSE(matches("a(?i)b(?-i)c", "aBC"));
  EXPECT_TRUE(matches("a(?i:b)c", "aBc"));
  EXPECT_FALSE(matches("(?i:b)c", "bC"));
  EXPECT_FALSE(matches("[^a]", "A", {.letters = Options::Letters::kCaseless}));
}

TEST(Pattern, may_be_looked_for_within_a_text) {
  EXPECT_TRUE(finds("b", "abc"));
  EXPECT_FALSE(finds("^b", "abc"));
  EXPECT_TRUE(finds("^a", "abc"));
  EXPECT_TRUE(finds("c$", "abc"));
  EXPECT_FALSE(finds("b$", "abc"));
  EXPECT_TRUE(finds("^a|c$", "xc"));
  EXPECT_TRUE(finds("^(a|b$)", "ax"));
  EXPECT_TRUE(finds("^(a|b$)", "b"));
  EXPECT_FALSE(finds("^(a|b$)", "bx"));
  EXPECT_TRUE(finds("", "anything"));
  EXPECT_TRUE(finds("(^)?b", "ab"));
  EXPECT_FALSE(finds("a^b", "ab"));
  EXPECT_FALSE(finds("a$b", "ab"));
  EXPECT_TRUE(finds("^$", ""));
  EXPECT_FALSE(finds("^$", "a"));
  EXPECT_TRUE(finds("x*^a", "a"));
}

TEST(Pattern, looks_ahead) {
  EXPECT_TRUE(matches("(?=.{3}$)a*b*", "aab"));
  EXPECT_FALSE(matches("(?=.{3}$)a*b*", "aabb"));
  EXPECT_TRUE(matches("(?!ab)[ab]{2}", "ba"));
  EXPECT_FALSE(matches("(?!ab)[ab]{2}", "ab"));
}

TEST(Pattern, what_no_set_of_texts_can_say_is_refused_by_its_name) {
  for (const auto& [expression, name] : {std::pair{R"((a)\1)", "a back reference"},
                                         {"(?<=a)b", "lookbehind"},
                                         {"(?<!a)b", "lookbehind"},
                                         {R"(\k<a>)", "a back reference"},
                                         {R"(\bfoo\b)", "a word's boundary"},
                                         {"a++", "a possessive repeat"},
                                         {"(?>a)", "a group of a kind"},
                                         {"(?m)^a", "a group of a kind"}})
    EXPECT_NE(refusal(expression).find(name), std::string::npos) << refusal(expression);
}

TEST(Pattern, what_is_none_is_refused_with_its_place) {
  EXPECT_EQ(refusal("ab["), "the regular expression is wrong at character 3: expected ]");
  for (const char* expression :
       {"(", ")", "(a", "a)", "*", "a{3,2}", "a{2000000}", "a{99999999999}", "[b-a]", "\\", "\\x4",
        "\\u{110000}", "\\ud800", "\\p{Nonsense}", "\\p{L", "\\q", "(?<n", "(?i", "\\08"})
    EXPECT_FALSE(refusal(expression).empty()) << expression;
}

TEST(Pattern, of_any_depth_and_size_there_is_an_answer_at_once) {
  EXPECT_FALSE(refusal(std::string(60'000, '(')).empty());
  EXPECT_FALSE(refusal(fmt::format("{:(<60000}a{:)<60000}", "", "")).empty());
  EXPECT_TRUE(matches("(a{1000}){1000}", std::string(1'000, 'a')) == false);
  RegularPool small(50);
  const auto parsed =
      parse_pattern(small, "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz", {});
  EXPECT_TRUE(!parsed || small.exhausted());
}

}  // namespace
}  // namespace kvik::constrain
