#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/answer_parts.h"

// Bare calls: tool calls that models write without the markup of their template.
namespace kvik {
namespace {

using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;

Json text(std::string words) { return {std::move(words)}; }
Json of_type(const std::string& type) { return {Json::Fields{{"type", text(type)}}}; }

Json tool(const std::string& name, Json::Fields properties, const std::string& required) {
  Json::Fields parameters = {{"type", text("object")},
                             {"properties", {std::move(properties)}},
                             {"required", {Json::List{text(required)}}}};
  Json::Fields function = {{"name", text(name)}, {"parameters", {std::move(parameters)}}};
  return {Json::Fields{{"type", text("function")}, {"function", {std::move(function)}}}};
}

AnswerSyntax syntax_of(const std::string& format) {
  AnswerSyntax syntax;
  syntax.calls = {find_tool_format(format)};
  syntax.reads_bare_calls = true;
  Json unit = {Json::Fields{{"type", text("string")},
                            {"enum", {Json::List{text("celsius"), text("fahrenheit")}}}}};
  syntax.tools = std::make_shared<const ToolSchemas>(
      std::vector{tool("get_weather", {{"city", of_type("string")}, {"unit", unit}}, "city"),
                  tool("add", {{"a", of_type("integer")}, {"b", of_type("integer")}}, "a")});
  return syntax;
}

// Returns the parts of an answer, which must not depend on how it is split into pieces.
Parts parts_of(const std::string& answer, const std::string& format = "hermes") {
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
  return whole;
}

std::string shown(const Parts& parts) {
  std::string all;
  for (const AnswerPart& part : parts) {
    all += (part.kind == Kind::kCall ? "[" + part.name + "] " : "") + part.text + "\n";
  }
  return all;
}

constexpr const char* kParis = R"({"name": "get_weather", "arguments": {"city": "Paris"}})";
constexpr const char* kParisCall = "[get_weather] {\"city\": \"Paris\"}\n";
constexpr const char* kSum = R"({"name": "add", "arguments": {"a": 1, "b": 2}})";
constexpr const char* kSumCall = "[add] {\"a\": 1, \"b\": 2}\n";

std::string fenced(const std::string& words) { return "```json\n" + words + "\n```"; }

TEST(BareCalls, json_block_is_a_call) {
  EXPECT_EQ(shown(parts_of(fenced(kParis))), kParisCall);
  EXPECT_EQ(shown(parts_of("```\n" + std::string(kParis) + "\n```\n")), kParisCall);
  EXPECT_EQ(shown(parts_of("```json\n" + std::string(kParis))), kParisCall);
  const std::string spread =
      "{\n  \"name\": \"get_weather\",\n  \"arguments\": {\n    \"city\": \"Paris\"\n  }\n}";
  EXPECT_EQ(shown(parts_of(fenced(spread))), "[get_weather] {\n    \"city\": \"Paris\"\n  }\n");
}

TEST(BareCalls, object_alone_is_a_call) {
  EXPECT_EQ(shown(parts_of(kParis)), kParisCall);
  EXPECT_EQ(shown(parts_of("\n" + std::string(kParis) + "\n")), kParisCall);
  EXPECT_EQ(shown(parts_of(R"({"name": "get_weather", "parameters": {"city": "Paris"}})")),
            kParisCall);
  EXPECT_EQ(shown(parts_of(R"({"name": "get_weather", "arguments": "{\"city\": \"Paris\"}"})")),
            kParisCall);
}

TEST(BareCalls, doubled_braces_of_a_template_are_a_call) {
  for (const char* answer : {R"({{"name": "get_weather", "arguments": {"city": "Paris"}}})",
                             R"({{"name": "get_weather", "arguments": {"city": "Paris"}})"}) {
    EXPECT_EQ(shown(parts_of(answer)), kParisCall) << answer;
    EXPECT_EQ(shown(parts_of(fenced(answer))), kParisCall) << answer;
  }
}

TEST(BareCalls, several_are_several_calls) {
  const std::string both = std::string(kParisCall) + kSumCall;
  const std::string paris = kParis, sum = kSum;
  EXPECT_EQ(shown(parts_of(paris + "\n" + sum)), both);
  EXPECT_EQ(shown(parts_of("[" + paris + ", " + sum + "]")), both);
  EXPECT_EQ(shown(parts_of(fenced("[\n" + paris + ",\n" + sum + "\n]"))), both);
  EXPECT_EQ(shown(parts_of(fenced(paris) + "\n\n" + fenced(sum))), both);
  EXPECT_EQ(shown(parts_of("<tools>\n" + paris + "\n</tools>")), kParisCall);
}

TEST(BareCalls, call_after_text_is_a_call) {
  EXPECT_EQ(shown(parts_of("Let me look.\n\n" + fenced(kParis))),
            "Let me look.\n" + std::string(kParisCall));
  EXPECT_EQ(shown(parts_of("Use { or [ here: " + std::string(kParis))),
            "Use { or [ here:\n" + std::string(kParisCall));
}

// For "What is 2+2?", a model called "add" although no such tool was declared.
TEST(BareCalls, undeclared_name_stays_text) {
  const std::string answer = R"({"name": "subtract", "arguments": {"a": 2, "b": 2}})";
  EXPECT_EQ(shown(parts_of(answer)), answer + "\n");
  EXPECT_EQ(shown(parts_of(fenced(answer))), fenced(answer) + "\n");
}

TEST(BareCalls, arguments_that_do_not_fit_stay_text) {
  for (const char* answer :
       {R"({"name": "get_weather", "arguments": {"unit": "celsius"}})",
        R"({"name": "get_weather", "arguments": {"city": 7}})",
        R"({"name": "get_weather", "arguments": {"city": "Paris", "unit": "kelvin"}})",
        R"({"name": "get_weather", "arguments": {"city": "Paris", "country": "France"}})",
        R"({"name": "add", "arguments": {"a": 1.5}})", R"({"name": "add", "arguments": [1, 2]})",
        R"({"name": "add"})", R"({"name": "add", "arguments": {"a": 1}, "why": "so"})"}) {
    EXPECT_EQ(shown(parts_of(answer)), std::string(answer) + "\n") << answer;
  }
}

TEST(BareCalls, json_that_is_shown_stays_text) {
  const std::string paris = kParis;
  for (const std::string& answer : std::vector<std::string>{
           fenced(paris) + "\nThis is how a call looks.", paris + " would be one.",
           "```json\n{\"city\": \"Paris\"}\n```", "int main() {\n  return 0;\n}",
           "A list: [1, 2, 3]", "`{}`", "[" + paris, "<b>bold</b>", "{", "```", "[", "``"}) {
    EXPECT_EQ(shown(parts_of(answer)), answer + "\n");
  }
}

TEST(BareCalls, shown_call_may_be_followed_by_a_real_one) {
  const std::string shown_first = fenced(kSum) + "\nNot that, but this:";
  EXPECT_EQ(shown(parts_of(shown_first + "\n" + kParis)), shown_first + "\n" + kParisCall);
}

TEST(BareCalls, call_that_breaks_off_is_text) {
  const std::string whole = fenced(kParis);
  for (size_t n = 1; n < whole.find("\n```"); ++n) {
    const std::string answer = whole.substr(0, n);
    EXPECT_EQ(shown(parts_of(answer)), answer + "\n");
  }
}

TEST(BareCalls, arguments_in_a_string_are_valid_json) {
  EXPECT_EQ(shown(parts_of(R"({"name": "get_weather", "arguments": "{\"city\": \"a\nb\"}"})")),
            "[get_weather] {\"city\": \"a\\nb\"}\n");
}

TEST(BareCalls, are_read_beside_every_format_with_marks) {
  for (const ToolFormat& format : tool_formats()) {
    if (format.has_channels) continue;
    const std::string name(format.name);
    EXPECT_EQ(shown(parts_of(fenced(kParis), name)), kParisCall) << name;
    EXPECT_EQ(shown(parts_of("So: " + std::string(kParis), name)),
              "So:\n" + std::string(kParisCall))
        << name;
  }
}

}  // namespace
}  // namespace kvik
