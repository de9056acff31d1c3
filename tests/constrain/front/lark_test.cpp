#include "constrain/front/lark.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "support/grammar_texts.h"

namespace kvik::constrain {
namespace {

GrammarTexts texts_of(std::string_view text) {
  auto grammar = parse_lark(text, {});
  EXPECT_TRUE(grammar.has_value()) << text << ": " << grammar.error().message;
  return GrammarTexts(grammar ? *grammar : *parse_lark("start: \"\\x00\"", {}));
}

std::string refusal(std::string_view text) {
  const auto grammar = parse_lark(text, {});
  EXPECT_FALSE(grammar.has_value()) << text;
  return grammar ? "" : grammar.error().message;
}

constexpr std::string_view kCalculator = R"lark(
// as Lark's documentation has it
?start: sum
      | NAME "=" sum    -> assign_var

?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub

?product: atom
    | product "*" atom  -> mul
    | product "/" atom  -> div

?atom: NUMBER           -> number
     | "-" atom         -> neg
     | NAME             -> var
     | "(" sum ")"

%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE

%ignore WS_INLINE
)lark";

TEST(Lark, a_calculator_is_read) {
  const GrammarTexts calculator = texts_of(kCalculator);
  for (const char* text : {"1", "x = 1 + 2.5*(y - -3)", "((((1))))", "a-b-c/d/e"})
    EXPECT_TRUE(calculator.has(text)) << text;
  for (const char* text : {"", "1 +", "(1", "x = = 1", "1 2", "\n1"})
    EXPECT_FALSE(calculator.has(text)) << text;
}

TEST(Lark, terminals_are_texts_ranges_and_expressions) {
  const GrammarTexts all = texts_of(R"lark(
    start: A B C D E
    A: "a" | "b" "c"
    B: "0".."9"+
    C: /x[^y]*y/
    D: "Select"i
    E: /e\/é/i ("f" "g")~2..3 "h"? ["i"] "j"{2}
  )lark");
  EXPECT_TRUE(
      all.has("bc12xzzysELECTe/\xC3\x89"
              "fgfghijj"));
  EXPECT_TRUE(
      all.has("a1xyselectE/\xC3\xA9"
              "fgfgfgjj"));
  EXPECT_FALSE(
      all.has("a1xyselectE/\xC3\xA9"
              "fgjj"));
  EXPECT_FALSE(
      all.has("b1xyselectE/\xC3\xA9"
              "fgfgjj"));
}

TEST(Lark, rules_repeat_and_may_be_empty) {
  const GrammarTexts list =
      texts_of("start: \"[\" [item (\",\" item)*] \"]\"\nitem: \"x\" | start | ");
  for (const char* text : {"[]", "[x]", "[x,[x,[]],]"}) EXPECT_TRUE(list.has(text)) << text;
  EXPECT_FALSE(list.has("[x"));
}

TEST(Lark, what_is_ignored_may_follow_any_terminal_and_is_in_none) {
  const GrammarTexts words =
      texts_of("start: (WORD \".\")+\nWORD: \"ab\" \"c\"\n%ignore / +/\n%ignore \"~\"");
  EXPECT_TRUE(words.has("abc .abc~ ~. "));
  EXPECT_FALSE(words.has("ab c."));
  EXPECT_FALSE(words.has(" abc."));
}

TEST(Lark, common_terminals_are_imported) {
  const GrammarTexts all = texts_of(R"(
    %import common (INT, WS, ESCAPED_STRING)
    %import common.C_COMMENT
    start: INT WS ESCAPED_STRING C_COMMENT
  )");
  EXPECT_TRUE(all.has("12 \n\"a\\\"b\"/* x * / **/"));
  EXPECT_FALSE(all.has("12 \"a\"b\"/**/"));
}

TEST(Lark, a_schema_is_a_part_like_others) {
  const GrammarTexts call = texts_of(R"lark(
    start: "<call>" %json {"type": "object", "properties": {"a": {"enum": ["}", "\""]}},
                           "required": ["a"], "additionalProperties": false} "</call>"
  )lark");
  EXPECT_TRUE(call.has(R"(<call>{"a":"}"}</call>)"));
  EXPECT_FALSE(call.has(R"(<call>{"a":1}</call>)"));
  EXPECT_FALSE(refusal("start: %json {\"type\": \"nothing\"}").empty());
  EXPECT_FALSE(refusal("start: %json {\"type\": ").empty());
}

TEST(Lark, alternatives_stand_on_lines_of_their_own) {
  const GrammarTexts lines =
      texts_of("start: \"a\"  # one\n  // two\n  | \"b\"\n\n  | (\"c\"\n \"d\")\nother: \"e\"");
  for (const char* text : {"a", "b", "cd"}) EXPECT_TRUE(lines.has(text)) << text;
}

TEST(Lark, what_cannot_be_kept_is_refused_by_its_name) {
  EXPECT_EQ(refusal("start: <|im_end|>"),
            "the grammar has a token in line 1, which is not supported");
  for (const auto& [text, name] : {std::pair{"start: a{b}\na{x}: x\nb: \"b\"", "a template"},
                                   {"start[temperature=1]: \"a\"", "a rule's attribute"},
                                   {"%declare A\nstart: A", "'%declare'"},
                                   {"%import other.A\nstart: A", "an import"},
                                   {"%llguidance {\"no_forcing\":true}\nstart: \"a\"", "an option"},
                                   {"start: @other", "another grammar"},
                                   {"start: /a/m", "a flag"}})
    EXPECT_NE(refusal(text).find(name), std::string::npos) << refusal(text);
}

TEST(Lark, what_is_none_is_refused_with_its_line) {
  EXPECT_EQ(refusal("start: \"a\"\n  missing"),
            "the grammar is wrong in line 2: expected ':' after 'missing'");
  for (const char* text : {"",
                           "a: \"b\"",
                           "start",
                           "start:\nstart: \"a\"",
                           "start: b",
                           "start: (\"a\"",
                           "start: \"a\")",
                           "start: \"a",
                           "start: /a",
                           "start: /(/",
                           "start: \"a\"..\"bc\"",
                           "start: \"b\"..\"a\"",
                           "start: \"a\"~3..2",
                           "start: \"a\"~",
                           "start: \"\\q\"",
                           "A: b\nb: \"c\"\nstart: A",
                           "%import common.NOTHING\nstart: \"a\"",
                           "start: start",
                           "start: a \"x\"\na: start | a",
                           "\xFF"})
    EXPECT_FALSE(refusal(text).empty()) << text;
}

TEST(Lark, of_any_depth_and_size_there_is_an_answer_at_once) {
  EXPECT_FALSE(refusal(fmt::format("start: {:(<60000}", "")).empty());
  EXPECT_FALSE(refusal(fmt::format("start: {:[<60000}", "")).empty());
  std::string many = "start: ";
  for (int i = 0; i < 200'000; ++i) many += "\"a\" ";
  EXPECT_FALSE(refusal(many).empty());
}

}  // namespace
}  // namespace kvik::constrain
