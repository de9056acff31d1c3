#include "constrain/front/gbnf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "support/grammar_texts.h"

namespace kvik::constrain {
namespace {

GrammarTexts texts_of(std::string_view text) {
  auto grammar = parse_gbnf(text, {});
  EXPECT_TRUE(grammar.has_value()) << text << ": " << grammar.error().message;
  return GrammarTexts(grammar ? *grammar : *parse_gbnf("root ::= \"\\x00\"", {}));
}

std::string refusal(std::string_view text) {
  const auto grammar = parse_gbnf(text, {});
  EXPECT_FALSE(grammar.has_value()) << text;
  return grammar ? "" : grammar.error().message;
}

// A grammar in the style of llama.cpp's documentation.
constexpr std::string_view kArithmetic = R"gbnf(# sums of numbers
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws   # they nest
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
)gbnf";

TEST(Gbnf, rules_refer_to_each_other_in_any_order) {
  const GrammarTexts sums = texts_of(kArithmetic);
  EXPECT_TRUE(sums.has("1+(2 *x_1)=3\n"));
  EXPECT_TRUE(sums.has("((a))=b\nc=d\n"));
  EXPECT_FALSE(sums.has("((a)=b\n"));
  EXPECT_FALSE(sums.has("1+=3\n"));
  EXPECT_FALSE(sums.has(""));
  EXPECT_EQ(sums.n_read("1+%"), 2u);
}

TEST(Gbnf, parts_repeat) {
  const GrammarTexts all =
      texts_of("root ::= \"a\"* \"b\"+ [c]? (\"de\"){2} \"f\"{1,2} \"g\"{2,} \"h\"{,1}");
  EXPECT_TRUE(all.has("bdedefgg"));
  EXPECT_TRUE(all.has("aabbcdedeffgggh"));
  EXPECT_FALSE(all.has("bdefgg"));
  EXPECT_FALSE(all.has("bdedefffgg"));
  EXPECT_FALSE(all.has("bdedefg"));
  EXPECT_TRUE(texts_of("root ::= \"ab\"+").has("abab")) << "a text repeats as a whole";
}

// The repeated part may be empty, and more repetitions may follow.
TEST(Gbnf, empty_texts_repeat_without_end) {
  for (const char* text : {"root ::= part+\npart ::= \"(\" part \")\" | [a-z]*\n",
                           "root ::= (part \"\")+\npart ::= [a-z]* [0-9]{0,3}\n"}) {
    const GrammarTexts all = texts_of(text);
    EXPECT_TRUE(all.has(""));
    EXPECT_TRUE(all.has("ab"));
    EXPECT_FALSE(all.has("?"));
    EXPECT_EQ(all.n_read("ab?"), 2u);
  }
}

TEST(Gbnf, texts_and_classes_have_escapes) {
  EXPECT_TRUE(texts_of(R"(root ::= "\x41\u00e9\U0001F389\n\t\r\"\\")")
                  .has("A\xC3\xA9\xF0\x9F\x8E\x89\n\t\r\"\\"));
  EXPECT_TRUE(texts_of(R"(root ::= [\]\[\\\-^a-c\x30-\x39]+)").has("]\\[-b5^"));
  EXPECT_TRUE(texts_of(R"(root ::= [^"\\\x7F\x00-\x1F]+)").has("\xC3\xA9 x"));
  EXPECT_FALSE(texts_of(R"(root ::= [^"]+)").has("\""));
  EXPECT_TRUE(texts_of("root ::= .").has("\xF0\x9F\x8E\x89"));
  EXPECT_TRUE(texts_of("root ::= [a-]+").has("-a"));
}

TEST(Gbnf, a_rule_goes_on_over_lines_and_comments) {
  const GrammarTexts lines =
      texts_of("root ::= # one of\n  \"a\" |\n  # or\n  \"b\"\n  | other\nother ::=\n  \"c\"");
  EXPECT_TRUE(lines.has("a"));
  EXPECT_TRUE(lines.has("b"));
  EXPECT_TRUE(lines.has("c"));
  EXPECT_TRUE(texts_of("root ::= \"a\" | ").has("")) << "an alternative may be empty";
}

TEST(Gbnf, rules_may_nest_and_begin_with_themselves) {
  const GrammarTexts nested = texts_of("root ::= \"(\" root \")\" | \"x\"");
  EXPECT_TRUE(nested.has(fmt::format("{:(<500}x{:)<500}", "", "")));
  EXPECT_FALSE(nested.has("(x"));
  const GrammarTexts left = texts_of("root ::= root \"+\" num | num\nnum ::= [0-9]+");
  EXPECT_TRUE(left.has("1+22+3"));
  EXPECT_FALSE(left.has("1+"));
  EXPECT_FALSE(refusal("root ::= a \"x\" | \"y\"\na ::= root \"z\"").empty()) << "by a detour";
}

TEST(Gbnf, what_is_none_is_refused_with_its_line) {
  EXPECT_EQ(refusal("root ::= \"a\"\nother ::= \"b\" missing"),
            "the grammar's rule 'missing', of line 2, is never defined");
  EXPECT_EQ(refusal("a ::= \"x\""), "the grammar is wrong in line 1: there is no rule 'root'");
  EXPECT_EQ(refusal("root ::= \"a\n\n)"), "the grammar is wrong in line 3: it ends unexpectedly");
  for (const char* text :
       {"", "root", "root ::=", "root ::= (\"a\"", "root ::= \"a\")", "root ::= [a",
        "root ::= [b-a]", "root ::= \"\\q\"", "root ::= \"\\xZZ\"", "root ::= *",
        "root ::= \"a\"{2,1}", "root ::= \"a\"{", "root ::= \"a\"{9999999}",
        "root ::= \"a\"\nroot ::= \"b\"", "root ::= <think>", "root ::= \"\xFF\"", "root ::= root",
        "root = \"a\""}) {
    if (std::string_view(text) == "root ::=") continue;  // accepts only the empty text
    EXPECT_FALSE(refusal(text).empty()) << text;
  }
}

TEST(Gbnf, of_any_depth_and_size_there_is_an_answer_at_once) {
  EXPECT_FALSE(refusal(fmt::format("root ::= {:(<60000}", "")).empty());
  std::string many = "root ::= ";
  for (int i = 0; i < 200'000; ++i) many += "[a]";
  EXPECT_FALSE(refusal(many).empty());
  std::string sequence = "root ::=";  // parts that cannot be merged
  for (int i = 0; i < 20'000; ++i) sequence += " [a-z] [0-9]";
  EXPECT_TRUE(parse_gbnf(sequence, {}).has_value());
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20'000; ++i) chain += fmt::format("r{} ::= r{} [x-z]\n", i, i + 1);
  EXPECT_FALSE(refusal(chain + "r20000 ::= [a-z]").empty());
  std::string doubled = "root ::= r0\n";  // texts of length 2^60
  for (int i = 0; i < 60; ++i) doubled += fmt::format("r{} ::= r{} r{}\n", i, i + 1, i + 1);
  doubled += "r60 ::= \"a\"";
  const auto large = parse_gbnf(doubled, {});
  if (large) {
    EXPECT_EQ(GrammarTexts(*large).n_read("aab"), 2u);
  }
}

}  // namespace
}  // namespace kvik::constrain
