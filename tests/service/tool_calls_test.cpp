#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cctype>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "service/answer_parts.h"
#include "tool_dialects.h"

namespace kvik {
namespace {

using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;
namespace json = boost::json;

Json text(std::string words) { return {std::move(words)}; }

// {"type": "function", "function": {"name": …, "parameters": {"properties": …}}}
Json tool(const std::string& name, const std::vector<std::pair<std::string, Json>>& properties) {
  Json::Fields fields;
  for (const auto& [key, schema] : properties) fields.push_back({key, schema});
  Json::Fields parameters = {{"type", text("object")}, {"properties", {std::move(fields)}}};
  Json::Fields function = {{"name", text(name)}, {"parameters", {std::move(parameters)}}};
  return {Json::Fields{{"type", text("function")}, {"function", {std::move(function)}}}};
}

Json of_type(const std::string& type) { return {Json::Fields{{"type", text(type)}}}; }

std::vector<Json> tools() {
  return {tool("get_weather", {{"city", of_type("string")},
                               {"days", of_type("integer")},
                               {"exact", of_type("boolean")},
                               {"share", of_type("number")}}),
          tool("write_file", {{"path", of_type("string")},
                              {"content", of_type("string")},
                              {"options", of_type("object")},
                              {"lines", of_type("array")}}),
          tool("now", {})};
}

AnswerSyntax syntax_of(const ToolDialect& dialect) {
  AnswerSyntax syntax;
  const ToolFormat* format = find_tool_format(dialect.name);
  syntax.calls = {format};
  syntax.reasoning_marks = &find_reasoning_marks(dialect.reasoning);
  syntax.tools = std::make_shared<const ToolSchemas>(tools());
  syntax.has_channels = format->has_channels;
  return syntax;
}

Parts parts_of(const AnswerSyntax& syntax, const std::vector<std::string_view>& pieces) {
  AnswerSplitter splitter(AnswerBegin::kText, syntax);
  Parts all;
  for (const std::string_view piece : pieces) {
    for (AnswerPart& part : splitter.push(piece)) append(all, std::move(part));
  }
  for (AnswerPart& part : splitter.push_last("")) append(all, std::move(part));
  return all;
}

// Returns the parts as a stream has them, byte by byte and not merged.
Parts streamed(const AnswerSyntax& syntax, std::string_view answer) {
  AnswerSplitter splitter(AnswerBegin::kText, syntax);
  Parts all;
  for (const char byte : answer) {
    for (AnswerPart& part : splitter.push(std::string_view(&byte, 1)))
      all.push_back(std::move(part));
  }
  for (AnswerPart& part : splitter.push_last("")) all.push_back(std::move(part));
  return all;
}

// Returns parts as text for comparison, with arguments as normalized JSON.
std::string shown(const Parts& parts) {
  std::string text;
  for (const AnswerPart& part : parts) {
    if (part.kind != Kind::kCall) {
      text += (part.kind == Kind::kText ? "text " : "thought ") + part.text + "\n";
      continue;
    }
    json::error_code error;
    const json::value arguments = json::parse(part.text, error);
    text += error ? "part of call " + part.name + " " + part.text
                  : "call " + part.name + " " + json::serialize(arguments);
    text += "\n";
  }
  return text;
}

std::string shown(const ExpectedCall& call) {
  return shown(Parts{{Kind::kCall, json_of(call), call.name}});
}

// Expects the parts `expected`, however the answer is split into pieces.
void expect(const ToolDialect& dialect, const std::string& answer, const std::string& expected) {
  SCOPED_TRACE(dialect.name + ": " + answer);
  const AnswerSyntax syntax = syntax_of(dialect);
  const Parts whole = parts_of(syntax, {answer});
  EXPECT_EQ(shown(whole), expected);
  for (size_t cut = 1; cut < answer.size(); ++cut) {
    const std::string_view all = answer;
    ASSERT_EQ(parts_of(syntax, {all.substr(0, cut), all.substr(cut)}), whole) << "cut at " << cut;
  }
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < answer.size();) {
      const size_t n = 1 + random() % (round % 2 == 0 ? 3 : 17);
      pieces.push_back(std::string_view(answer).substr(at, n));
      at += n;
    }
    ASSERT_EQ(parts_of(syntax, pieces), whole) << "round " << round;
  }
}

const ExpectedCall kOne = {"get_weather", {{"city", "\"Paris\""}}};
const ExpectedCall kTyped = {
    "get_weather", {{"city", "\"42\""}, {"days", "3"}, {"exact", "true"}, {"share", "0.5"}}};
const ExpectedCall kNested = {
    "write_file",
    {{"path", "\"a/b.json\""},
     {"options", "{\"deep\": {\"er\": [1, {\"x\": \"y\"}]}, \"n\": null}"},
     {"lines", "[\"one\", \"two\"]"}}};
const ExpectedCall kUnicode = {"write_file",
                               {{"path", "\"caf\u00e9/\u4eca\u65e5.txt\""},
                                {"content", "\"\U0001f600 it's \u00ab50%\u00bb\""}}};
const ExpectedCall kEscapes = {
    "write_file", {{"path", "\"x\""}, {"content", "\"line one\\nline \\\"two\\\" \\\\ end\""}}};
// An argument that contains the marks of several formats.
const ExpectedCall kMarks = {
    "write_file",
    {{"path", "\"x\""}, {"content", "\"a </parameter> b </tool_call> c } ] < <| </think>\""}}};
const ExpectedCall kBare = {"now", {}};

class ToolCalls : public testing::TestWithParam<ToolDialect> {};
class SeveralToolCalls : public ToolCalls {};   // formats that allow several calls per answer
class UnmarkedToolCalls : public ToolCalls {};  // formats whose text is not framed
class ToolCallsWithin : public ToolCalls {};    // formats whose calls may begin anywhere in text

std::vector<ToolDialect> dialects_where(bool (*holds)(const ToolDialect&)) {
  std::vector<ToolDialect> some;
  std::ranges::copy_if(tool_dialects(), std::back_inserter(some), holds);
  return some;
}

bool is_json_alone(const ToolDialect& dialect) {
  return dialect.name == "llama3" && dialect.writes_several;
}

std::string test_name(const testing::TestParamInfo<ToolDialect>& info) {
  std::string name = info.param.name + std::to_string(info.index);
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
}

TEST_P(ToolCalls, one_call) { expect(GetParam(), GetParam().write({kOne}), shown(kOne)); }

TEST_P(ToolCalls, a_call_without_arguments) {
  expect(GetParam(), GetParam().write({kBare}), shown(kBare));
}

TEST_P(ToolCalls, numbers_stay_numbers_and_strings_strings) {
  expect(GetParam(), GetParam().write({kTyped}), shown(kTyped));
}

TEST_P(ToolCalls, nested_arguments) {
  expect(GetParam(), GetParam().write({kNested}), shown(kNested));
}

TEST_P(ToolCalls, unicode) { expect(GetParam(), GetParam().write({kUnicode}), shown(kUnicode)); }

TEST_P(ToolCalls, escapes_and_lines) {
  expect(GetParam(), GetParam().write({kEscapes}), shown(kEscapes));
}

TEST_P(ToolCalls, arguments_that_look_like_marks) {
  expect(GetParam(), GetParam().write({kMarks}), shown(kMarks));
}

TEST_P(SeveralToolCalls, come_in_their_order) {
  expect(GetParam(), GetParam().write({kOne, kNested, kBare, kOne}),
         shown(kOne) + shown(kNested) + shown(kBare) + shown(kOne));
}

// JSON without marks is a call only if it is the whole answer; after text it is text.
TEST_P(ToolCalls, text_before) {
  const std::string call = GetParam().write({kOne});
  expect(GetParam(), framed(GetParam().text_frame, "Let me look.\n\nFirst:") + call,
         "text Let me look.\n\nFirst:" +
             (is_json_alone(GetParam()) ? call + "\n" : "\n" + shown(kOne)));
}

TEST_P(UnmarkedToolCalls, whitespace_around_calls_is_dropped) {
  expect(GetParam(), "\n" + GetParam().write({kOne}) + "\n", shown(kOne));
}

TEST_P(ToolCalls, text_after) {
  if (GetParam().name == "harmony") {
    expect(GetParam(),
           GetParam().write({kOne}) + "<|call|><|start|>assistant" +
               "<|channel|>final<|message|>Done.",
           shown(kOne) + "text Done.\n");
  } else {
    expect(GetParam(), GetParam().write({kOne}) + "\nDone.", shown(kOne) + "text Done.\n");
  }
}

TEST_P(ToolCalls, reasoning_before) {
  expect(GetParam(), framed(GetParam().reasoning, "Hm, <b> so") + GetParam().write({kOne}),
         "thought Hm, <b> so\n" + shown(kOne));
}

// The text that precedes the calls of a format: in harmony a message.
std::string before(const ToolDialect& dialect) {
  return dialect.name == "harmony" ? framed(dialect.text_frame, "So:") : "So: \n";
}

// Wherever an answer ends, a whole answer has either the call or its text, as the model wrote it.
TEST_P(ToolCalls, a_call_that_breaks_off_is_text) {
  const std::string call = GetParam().write({kNested});
  const AnswerSyntax syntax = syntax_of(GetParam());
  const Parts all = parts_of(syntax, {call});
  size_t n_texts = 0;
  for (size_t n = 1; n < call.size(); ++n) {
    const std::string answer = call.substr(0, n);
    SCOPED_TRACE(answer);
    const Parts parts = parts_of(syntax, {answer});
    if (has_call(parts)) {
      EXPECT_EQ(parts, all);
      continue;
    }
    // A header of harmony that names no function holds no call.
    if (GetParam().name == "harmony" && !answer.contains("to=")) continue;
    EXPECT_EQ(shown(parts), "text " + answer + "\n");
    ++n_texts;
  }
  EXPECT_GT(n_texts, call.find("two") - call.find("write_file"));
  for (const size_t n : {call.find("write_file") + 4, call.find("deep"), call.find("two")}) {
    const std::string answer = call.substr(0, n);
    expect(GetParam(), answer, "text " + answer + "\n");
    const Parts parts = parts_of(syntax, {before(GetParam()) + answer});
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_TRUE(parts[0].text.starts_with("So:") && parts[0].text.ends_with("\n" + answer));
  }
}

// A stream has sent a part of the call. It does not parse, and the rest of what the model wrote is
// text, so that nothing is lost.
TEST_P(ToolCalls, a_stream_shows_that_a_call_breaks_off) {
  const std::string call = GetParam().write({kNested});
  const AnswerSyntax syntax = syntax_of(GetParam());
  const Parts all = parts_of(syntax, {call});
  size_t n_broken = 0;
  for (size_t n = 1; n < call.size(); ++n) {
    const std::string answer = call.substr(0, n);
    SCOPED_TRACE(answer);
    std::string arguments, written, name;
    for (const AnswerPart& part : streamed(syntax, answer)) {
      if (part.kind == Kind::kCall) name = part.name;
      if (part.kind == Kind::kCall || part.kind == Kind::kArguments) arguments += part.text;
      if (part.kind == Kind::kBroken || part.kind == Kind::kText) written += part.text;
      if (part.kind == Kind::kBroken) ++n_broken;
    }
    if (name.empty()) continue;
    EXPECT_EQ(name, "write_file");
    EXPECT_TRUE(all[0].text.starts_with(arguments)) << arguments;
    EXPECT_EQ(written, read_json(arguments).empty() ? answer : "");
  }
  EXPECT_GT(n_broken, 10u);
}

TEST_P(ToolCalls, a_call_after_one_that_breaks_off_is_parsed) {
  const std::string call = GetParam().write({kNested});
  if (GetParam().name == "harmony" || is_json_alone(GetParam())) return;
  const std::string broken = call.substr(0, call.find("deep")) + "\x01\x02";
  const std::string answer = broken + "\n" + GetParam().write({kOne});
  const Parts parts = parts_of(syntax_of(GetParam()), {answer});
  const bool is_text = shown(parts) == "text " + answer + "\n";
  const bool is_value = parts[0].name == "write_file" && parts[0].text.contains("\\u0001\\u0002");
  if (is_text || is_value) return;  // values of this format are any text
  EXPECT_EQ(shown(parts), "text " + broken + "\n" + shown(kOne));
}

// A long call takes linear time: quadratic work on 10 MB would not end within the test's time
// limit.
TEST_P(ToolCalls, a_call_of_ten_megabytes_is_parsed_in_linear_time) {
  std::string content = "\"";
  while (content.size() < 10'000'000) content += "a [b] {c}: 'd' <e> \\n";
  content += "\"";
  const ExpectedCall call = {"write_file", {{"path", "\"x\""}, {"content", content}}};
  const std::string answer = GetParam().write({call});
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < answer.size(); at += 4096) {
    pieces.push_back(std::string_view(answer).substr(at, 4096));
  }
  const Parts parts = parts_of(syntax_of(GetParam()), pieces);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].name, "write_file");
  EXPECT_GE(parts[0].text.size(), content.size());
}

TEST_P(ToolCalls, arguments_that_nest_a_hundred_thousand_deep_end_no_process) {
  const std::string whole = GetParam().write({kNested});
  const std::pair<size_t, std::string_view> nested[] = {{whole.find("deep"), "deep\": {\""},
                                                        {whole.find("one") - 1, "["}};
  for (const auto& [cut, level] : nested) {
    std::string answer = whole.substr(0, cut);
    for (uint32_t i = 0; i < 100'000; ++i) answer += level;
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < answer.size(); at += 100) {
      pieces.push_back(std::string_view(answer).substr(at, 100));
    }
    const Parts parts = parts_of(syntax_of(GetParam()), pieces);
    EXPECT_EQ(text_of(parts, Kind::kText), answer);
  }
}

TEST_P(ToolCalls, arguments_are_handed_out_as_they_come) {
  const std::string whole = GetParam().write({kEscapes});
  AnswerSplitter splitter(AnswerBegin::kText, syntax_of(GetParam()));
  Parts all;
  const size_t end = whole.find("two") + 5;
  for (const char byte : whole.substr(0, end)) {
    for (AnswerPart& part : splitter.push(std::string_view(&byte, 1))) append(all, std::move(part));
  }
  ASSERT_EQ(all.size(), 1u) << shown(all);
  EXPECT_EQ(all[0].name, "write_file");
  EXPECT_TRUE(all[0].text.contains("line one\\nline \\\"two")) << all[0].text;
}

TEST_P(SeveralToolCalls, complete_calls_before_a_cut_remain) {
  const std::string whole = GetParam().write({kOne, kNested});
  const std::string answer = whole.substr(0, whole.find("two"));
  const Parts parts = parts_of(syntax_of(GetParam()), {answer});
  ASSERT_FALSE(parts.empty());
  EXPECT_EQ(shown({parts.front()}), shown(kOne));
  expect(GetParam(), answer, shown(parts));
}

TEST_P(ToolCalls, what_is_no_call_is_text) {
  const std::string answer = std::string(GetParam().broken) + " and so on";
  const Parts parts = parts_of(syntax_of(GetParam()), {answer});
  EXPECT_FALSE(has_call(parts)) << shown(parts);
  EXPECT_EQ(text_of(parts, Kind::kText), answer);
  expect(GetParam(), answer, shown(parts));
}

TEST_P(ToolCallsWithin, a_call_after_a_broken_one_is_parsed) {
  const std::string broken = std::string(GetParam().broken) + " oh";
  expect(GetParam(), broken + "\n" + GetParam().write({kOne}),
         "text " + broken + "\n" + shown(kOne));
}

TEST_P(ToolCalls, text_alone) {
  expect(GetParam(), framed(GetParam().text_frame, "No < tool [ is { needed.\n\n"),
         "text No < tool [ is { needed.\n\n\n");
}

INSTANTIATE_TEST_SUITE_P(Formats, ToolCalls, testing::ValuesIn(tool_dialects()), test_name);
INSTANTIATE_TEST_SUITE_P(Formats, SeveralToolCalls,
                         testing::ValuesIn(dialects_where([](const ToolDialect& dialect) {
                           return dialect.writes_several;
                         })),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Formats, UnmarkedToolCalls,
                         testing::ValuesIn(dialects_where([](const ToolDialect& dialect) {
                           return dialect.name != "harmony";
                         })),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Formats, ToolCallsWithin,
                         testing::ValuesIn(dialects_where([](const ToolDialect& dialect) {
                           return dialect.name != "harmony" && dialect.name != "llama3";
                         })),
                         test_name);

}  // namespace
}  // namespace kvik
