#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "service/answer_parts.h"
#include "service/tools/tool_format.h"

// Calls that models write otherwise than their templates do.
namespace kvik {
namespace {

using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;

AnswerSyntax syntax_of(std::string_view format) {
  AnswerSyntax syntax;
  syntax.calls = {find_tool_format(format)};
  syntax.tools = std::make_shared<const ToolSchemas>(std::vector{*parse_json(
      R"({"name": "f", "parameters": {"type": "object", "properties": {
          "s": {"type": "string"}, "n": {"type": "integer"}, "l": {"type": "array"},
          "o": {"type": "object", "properties": {"a": {"type": "string"}}}}}})")});
  return syntax;
}

// Returns the parts of an answer, which must not depend on how it is split into pieces.
std::string shown(std::string_view format, const std::string& answer) {
  const AnswerSyntax syntax = syntax_of(format);
  const Parts whole = AnswerSplitter(AnswerBegin::kText, syntax).push_last(answer);
  for (size_t size = 1; size < 8; ++size) {
    AnswerSplitter splitter(AnswerBegin::kText, syntax);
    Parts all;
    for (size_t at = 0; at < answer.size(); at += size) {
      for (AnswerPart& part : splitter.push(answer.substr(at, size))) append(all, std::move(part));
    }
    for (AnswerPart& part : splitter.push_last("")) append(all, std::move(part));
    EXPECT_EQ(all, whole) << "in pieces of " << size << ": " << answer;
  }
  std::string text;
  for (const AnswerPart& part : whole) {
    text += (part.kind == Kind::kCall ? "[" + part.name + "] " : "") + part.text + "\n";
  }
  return text;
}

std::string minicpm5(const std::string& name, const std::string& value) {
  return R"(<function name="f"><param name=")" + name + "\">" + value + "</param></function>";
}

TEST(CallReader, text_after_cdata_belongs_to_the_value) {
  const std::pair<const char*, const char*> values[] = {
      {"<![CDATA[a]]>tail", "atail"},
      {"<![CDATA[a]]>\n tail\n", "a\\n tail\\n"},
      {"<![CDATA[a]]><![CDATA[</param>]]>", "a</param>"},
      {"<![CDATA[a]]>, <![CDATA[b]]>.", "a, b."},
      {"<![CDATA[a]]>b <c", "a]]>b <c"},
      {"<![CDATA[x[y[0]]>1 ? z]]>", "x[y[0]]>1 ? z"},
      {"<![CDATA[<a><![CDATA[b]]></a></param> ]]>", "<a><![CDATA[b]]></a></param> "},
      {"<![CDATA[a\n]]>\n", "a\\n"}};
  for (const auto& [written, value] : values) {
    EXPECT_EQ(shown("minicpm5", minicpm5("s", written)),
              std::string("[f] {\"s\": \"") + value + "\"}\n")
        << written;
  }
  EXPECT_EQ(shown("minicpm5", minicpm5("n", "<![CDATA[1]]>2") + "\n" + minicpm5("s", "x")),
            "[f] {\"n\": 12}\n[f] {\"s\": \"x\"}\n");
}

TEST(CallReader, cdata_that_is_not_closed_is_text) {
  const std::string answer = minicpm5("s", "<![CDATA[never closed");
  EXPECT_EQ(shown("minicpm5", answer), answer + "\n");
}

// Returns a call of MiniMax M3 in which "|" stands before each tag.
std::string minimax_m3(std::string tags) {
  tags = "|<tool_call>\n|<invoke name=\"f\">" + tags + "|</invoke>\n|</tool_call>";
  std::string call;
  for (const char byte : tags) {
    if (byte == '|') {
      call += kTagNamespace;
    } else {
      call += byte;
    }
  }
  return call;
}

TEST(CallReader, element_where_a_tag_does_not_fit_is_text) {
  for (const char* tags :
       {"|<l>|<a>b|</a>|</l>", "|<l>|<item>a|</item>text|</l>", "|<o>|<a>x|</o>|</a>", "|<s>x|</n>",
        "|<n>1|</n>|</s>", "|<s>v|</s>stray", "stray|<s>v|</s>", "|<o>|<a>x|</a>",
        "|<o>|<a>x|</a>|<tool_call>|</o>"}) {
    const std::string answer = "So:\n" + minimax_m3(tags);
    EXPECT_EQ(shown("minimax-m3", answer), answer + "\n");
    EXPECT_EQ(shown("minimax-m3", answer + " Then. "), answer + " Then. \n");
  }
  const std::string broken = minimax_m3("|<o>|<a>x|</o>");
  EXPECT_EQ(shown("minimax-m3", minimax_m3("|<n>1|</n>x") + "\n" + minimax_m3("|<n>2|</n>")),
            minimax_m3("|<n>1|</n>x") + "\n[f] {\"n\": 2}\n");
}

TEST(CallReader, json_in_a_string_is_valid_json) {
  EXPECT_EQ(shown("hermes",
                  "<tool_call>{\"name\": \"f\", \"arguments\": "
                  "\"{\\\"s\\\": \\\"a\\nb\\\"}\"}</tool_call>"),
            "[f] {\"s\": \"a\\nb\"}\n");
}

// Small models forget the last brace.
TEST(CallReader, call_whose_arguments_are_complete_is_a_call) {
  const std::string open = R"(<tool_call>{"name": "f", "arguments": {"n": 1})";
  EXPECT_EQ(shown("hermes", open), "[f] {\"n\": 1}\n");
  EXPECT_EQ(shown("hermes", open + "\n"), "[f] {\"n\": 1}\n");
  EXPECT_EQ(shown("hermes", open + "</tool_call>\nDone."), "[f] {\"n\": 1}\n</tool_call>\nDone.\n");
}

}  // namespace
}  // namespace kvik
