#include "service/tools/tool_call_grammar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <random>
#include <string>
#include <vector>

#include "constrain/grammar_matcher.h"
#include "service/answer_parts.h"
#include "service/structured_output/grammar_builder.h"
#include "service/tools/argument_rules.h"
#include "service/tools/call_writer.h"
#include "service/tools/tool_schemas.h"

// Grammars of tool calls: whatever the model prefers, its answer is parsed as calls that satisfy
// the schemas of their tools.
namespace kvik {
namespace {

namespace json = boost::json;
using Kind = AnswerPart::Kind;
using Parts = std::vector<AnswerPart>;
using Names = std::set<std::string, std::less<>>;

Json text(std::string words) { return {std::move(words)}; }
Json of_type(const std::string& type) { return {Json::Fields{{"type", text(type)}}}; }

Json list(const std::vector<std::string>& words) {
  Json::List all;
  for (const std::string& word : words) all.push_back(text(word));
  return {std::move(all)};
}

Json tool(const std::string& name, Json::Fields properties,
          const std::vector<std::string>& required) {
  Json::Fields parameters = {{"type", text("object")},
                             {"properties", {std::move(properties)}},
                             {"required", list(required)},
                             {"additionalProperties", {false}}};
  Json::Fields function = {{"name", text(name)}, {"parameters", {std::move(parameters)}}};
  return {Json::Fields{{"type", text("function")}, {"function", {std::move(function)}}}};
}

// Returns two tools: get_weather with a string, an enum, an integer and a Boolean, of which the
// enum and the Boolean are optional; and now without parameters.
std::vector<Json> flat_tools() {
  Json unit = {Json::Fields{{"type", text("string")}, {"enum", list({"C", "F and more"})}}};
  return {tool("get_weather",
               {{"city", of_type("string")},
                {"unit", unit},
                {"days", of_type("integer")},
                {"exact", of_type("boolean")}},
               {"city", "days"}),
          tool("now", {}, {})};
}

bool is_valid(const AnswerPart& call) {
  json::error_code error;
  const json::value parsed = json::parse(call.text, error);
  if (error || !parsed.is_object()) return false;
  const json::object& arguments = parsed.get_object();
  if (call.name == "now") return arguments.empty();
  if (call.name != "get_weather" || !arguments.contains("city") || !arguments.contains("days")) {
    return false;
  }
  return std::ranges::all_of(arguments, [](const auto& item) {
    const std::string_view key = item.key();
    const json::value& value = item.value();
    if (key == "city") return value.is_string();
    if (key == "unit") {
      return value.is_string() && (value.as_string() == "C" || value.as_string() == "F and more");
    }
    if (key == "days") return value.is_int64() || value.is_uint64() || value.is_double();
    return key == "exact" && value.is_bool();
  });
}

struct Template {
  std::string format, marker = {};
};

void PrintTo(const Template& of, std::ostream* out) { *out << of.format << of.marker; }

// Generates random text that the grammar allows: bytes, and whole marks of the syntax. Marks are
// preferred, because random bytes would hardly ever complete one and end the text.
class RandomAnswers {
 public:
  RandomAnswers(const GrammarRules& grammar, std::vector<std::string> marks)
      : marks_(std::move(marks)) {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    std::ranges::copy(marks_, std::back_inserter(tokens));
    auto built = build_grammar(grammar, {});
    EXPECT_TRUE(built.has_value()) << (built ? "" : built.error().message);
    if (!built) return;
    compiled_ = constrain::CompiledGrammar::make(
        std::move(*built), std::make_shared<const constrain::VocabularyTrie>(std::move(tokens)));
  }

  // Returns whether the grammar allows the text from its beginning to its end.
  bool allows(std::string_view text) {
    if (!compiled_) return false;
    constrain::GrammarMatcher matcher = compiled_->start();
    return *matcher.accept_bytes(text) == text.size() && *matcher.is_complete();
  }

  // Returns a random text; empty if it does not end within 4,000 tokens.
  std::string say(uint32_t seed) {
    if (!compiled_) return "";
    std::mt19937 random(seed);
    constrain::GrammarMatcher matcher = compiled_->start();
    std::string said;
    for (int step = 0; step < 4'000; ++step) {
      const bool is_complete = *matcher.is_complete();
      const bool may_continue = !matcher.next_bytes()->empty();
      if (is_complete && (!may_continue || random() % 2 == 0)) return said;
      TokenBitmask mask(static_cast<uint32_t>(256 + marks_.size()));
      EXPECT_TRUE(matcher.mask(mask).has_value());
      std::vector<TokenId> plain, marks;
      for (TokenId token = 0; token < 256 + marks_.size(); ++token) {
        if (!mask.allows(token)) continue;
        const bool is_letter = token < 128 && token >= 32;
        if (token >= 256) marks.push_back(token);
        if (is_letter || (token < 256 && plain.empty())) plain.push_back(token);
      }
      const bool takes_mark = !marks.empty() && (plain.empty() || random() % 4 == 0);
      const std::vector<TokenId>& from = takes_mark ? marks : plain;
      if (from.empty()) return "";
      const TokenId token = from[random() % from.size()];
      EXPECT_TRUE(*matcher.accept(token));
      said += token < 256 ? std::string(1, static_cast<char>(token)) : marks_[token - 256];
    }
    return "";
  }

 private:
  std::vector<std::string> marks_;
  std::shared_ptr<constrain::CompiledGrammar> compiled_;
};

class ToolCallGrammars : public testing::TestWithParam<Template> {
 protected:
  const ToolFormat& format() const { return *find_tool_format(GetParam().format); }
  const CallSyntax& syntax() const { return find_syntax(format(), GetParam().marker); }

  ToolCallGrammar made(ToolCallRequirements wish) {
    formats_ = {&format()};
    wish.syntax = &syntax();
    wish.formats = formats_;
    auto form = tool_call_grammar(wish);
    EXPECT_TRUE(form.has_value()) << (form ? "" : form.error().message);
    return form ? *form : ToolCallGrammar{};
  }

  RandomAnswers random_answers(const ToolCallGrammar& form) const {
    std::vector<std::string> marks = {"<|\"|>", "\"", "</parameter>",
                                      "{}",     "0}", "<|channel|>final<|message|>"};
    const CallSyntax& s = syntax();
    const std::string call_begin = s.call_begin(), call_end = s.call_end();
    for (const std::string_view mark :
         {s.answer_begin(), std::string_view(call_begin), s.between, std::string_view(call_end),
          s.separator, s.answer_end(), s.key, s.after_key, s.after_value, s.after_json_key}) {
      if (!mark.empty() && std::ranges::find(marks, mark) == marks.end()) marks.emplace_back(mark);
    }
    if (s.values == CallSyntax::Values::kElements) {
      marks.push_back(std::string(kTagNamespace) + "</");
    }
    return {form.form->rules, marks};
  }

  // Returns a call of a tool without parameters, without the marks that enclose all calls.
  std::string bare_call_of(const std::string& name) const {
    const CallSyntax& s = syntax();
    const std::string number = s.has_numbered_names ? ":0" : "";
    const std::string arguments = s.has_json_arguments() ? "{}" : "";
    const std::string shown_name = s.has_quoted_name() ? "\"" + name + "\"" : name;
    return s.call_begin() + shown_name + number + std::string(s.between) + arguments + s.call_end();
  }

  Parts parts_of(std::string_view answer) const {
    AnswerSyntax syntax;
    syntax.reads_bare_calls = !format().has_channels;
    syntax.calls = {&format()};
    syntax.tools = std::make_shared<const ToolSchemas>(tools_);
    syntax.has_channels = format().has_channels;
    return AnswerSplitter(AnswerBegin::kText, syntax).push_last(answer);
  }

  const std::vector<Json> tools_ = flat_tools();
  const Names none_;
  std::vector<const ToolFormat*> formats_;
};

class SeveralToolCallGrammars : public ToolCallGrammars {
};  // formats that allow several calls per answer
class OptionalToolCallGrammars : public ToolCallGrammars {};  // calls that are not forced

TEST_P(ToolCallGrammars, every_allowed_answer_is_a_call_that_fits_its_schema) {
  const ToolCallGrammar form =
      made({.tools = tools_, .strict = none_, .forced = ForcedCalls{}, .may_be_several = false});
  EXPECT_FALSE(form.is_hermes);
  RandomAnswers model = random_answers(form);
  int n_said = 0;
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const std::string said = model.say(seed);
    if (said.empty()) continue;
    ++n_said;
    const Parts parts = parts_of(said);
    ASSERT_EQ(parts.size(), 1u) << said;
    ASSERT_EQ(parts[0].kind, Kind::kCall) << said;
    EXPECT_TRUE(is_valid(parts[0])) << said << "\n" << parts[0].name << " " << parts[0].text;
  }
  EXPECT_GE(n_said, 30);
}

TEST_P(SeveralToolCallGrammars, come_one_after_the_other) {
  const ToolCallGrammar form = made({.tools = tools_, .strict = none_, .forced = ForcedCalls{}});
  RandomAnswers model = random_answers(form);
  size_t most = 0;
  for (uint32_t seed = 0; seed < 200 && most < 2; ++seed) {
    const std::string said = model.say(seed);
    if (said.empty()) continue;
    const Parts parts = parts_of(said);
    EXPECT_TRUE(std::ranges::all_of(parts, is_valid)) << said;
    most = std::max(most, parts.size());
  }
  EXPECT_GE(most, 2u);
}

// Models write a newline after their last call. When the grammar allowed only another call after
// it, they repeated the call.
TEST_P(SeveralToolCallGrammars, may_end_wherever_another_call_may_begin) {
  const ToolCallGrammar form = made({.tools = tools_, .strict = none_, .forced = ForcedCalls{}});
  RandomAnswers model = random_answers(form);
  const std::string begin(syntax().answer_begin()), end(syntax().answer_end()),
      between(syntax().separator);
  const std::string call = bare_call_of("now");
  const size_t n_blanks = std::min(between.find_first_not_of(" \n"), between.size());
  for (const std::string& blanks :
       {std::string(), between.substr(0, n_blanks), std::string("\n"), std::string(" ")}) {
    EXPECT_TRUE(model.allows(begin + call + blanks + end)) << call << "[" << blanks << "]";
    const std::string two = begin + call + between + call + blanks + end;
    EXPECT_TRUE(model.allows(two)) << two;
    EXPECT_EQ(parts_of(two).size(), 2u) << two;
  }
}

TEST_P(ToolCallGrammars, a_single_call_allows_no_second_one) {
  const ToolCallGrammar form =
      made({.tools = tools_, .strict = none_, .forced = ForcedCalls{}, .may_be_several = false});
  RandomAnswers model = random_answers(form);
  const std::string begin(syntax().answer_begin()), end(syntax().answer_end()),
      between(syntax().separator);
  const std::string call = bare_call_of("now");
  EXPECT_TRUE(model.allows(begin + call + end));
  EXPECT_FALSE(model.allows(begin + call + "\n" + end));
  EXPECT_FALSE(model.allows(begin + call + between + call + end));
}

// The schema of a strict tool also applies to a call without the format's markup.
TEST_P(OptionalToolCallGrammars, strict_schemas_apply_to_calls_without_markup) {
  if (format().has_channels) return;
  const Names strict = {"get_weather"};
  RandomAnswers model = random_answers(made({.tools = tools_, .strict = strict}));
  const std::string opening = R"({"name": "get_weather", "arguments": {"city":"Paris",)";
  for (const std::string& before : {std::string(), std::string("Let me see.\n\n```json\n")}) {
    const std::string after = before.empty() ? "" : "\n```";
    const std::string good = before + opening + R"("days":3}})" + after;
    EXPECT_TRUE(model.allows(good)) << good;
    const Parts parts = parts_of(good);
    ASSERT_FALSE(parts.empty());
    EXPECT_EQ(parts.back().name, "get_weather") << good;
    EXPECT_FALSE(model.allows(before + opening + R"("days":"many"}})" + after)) << before;
    EXPECT_FALSE(model.allows(before + opening + R"("days":3,"why":1}})" + after)) << before;
  }
  EXPECT_TRUE(model.allows(R"(It is {"name": "now", "arguments": 3}, or {"city": "Paris"}.)"));
}

// The writer and the parser of a format are made from the same row of the table.
TEST_P(ToolCallGrammars, calls_that_are_written_are_read_back) {
  const Json::Fields weather = {
      {"city", text("L'Aquila \\ {x}")}, {"days", {int64_t{3}}}, {"exact", {true}}};
  std::vector<ToolCall> calls = {
      {.id = "functions.get_weather:0", .name = "get_weather", .arguments = {weather}},
      {.id = "functions.now:1", .name = "now", .arguments = {Json::Fields{}}}};
  if (format().has_one_call) calls.pop_back();
  const std::string written = written_calls(format(), calls).bytes();
  const Parts parts = parts_of(written);
  ASSERT_EQ(parts.size(), calls.size()) << written;
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(parts[i].kind, Kind::kCall) << written;
    EXPECT_EQ(parts[i].name, calls[i].name) << written;
    EXPECT_EQ(json::parse(parts[i].text), json::parse(to_json(calls[i].arguments))) << written;
  }
}

TEST_P(ToolCallGrammars, a_tool_that_is_named_is_the_one_that_is_called) {
  const ToolCallGrammar form = made({.tools = tools_,
                                     .strict = none_,
                                     .forced = ForcedCalls{.names = {"now"}, .is_one = true},
                                     .may_be_several = false});
  const std::string said = random_answers(form).say(1);
  const Parts parts = parts_of(said);
  ASSERT_EQ(parts.size(), 1u) << said;
  EXPECT_EQ(parts[0].name, "now");
  EXPECT_EQ(parts[0].text, "{}");
}

TEST_P(OptionalToolCallGrammars, calls_of_strict_tools_match_their_schemas) {
  const Names strict = {"get_weather", "now"};
  const ToolCallGrammar form = made({.tools = tools_, .strict = strict});
  EXPECT_EQ(form.form->strictness, StructuredOutput::Strictness::kStrict);
  RandomAnswers model = random_answers(form);
  int n_texts = 0, n_calls = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const std::string said = model.say(seed);
    for (const AnswerPart& part : parts_of(said)) {
      if (part.kind != Kind::kCall) {
        ++n_texts;
        continue;
      }
      ++n_calls;
      EXPECT_TRUE(is_valid(part)) << said << "\n" << part.text;
    }
  }
  EXPECT_GT(n_texts, 0);
  EXPECT_GT(n_calls, 0);
}

// Returns one for each syntax that a template may have.
std::vector<Template> templates() {
  std::vector<Template> all;
  for (const ToolFormat& format : tool_formats()) {
    for (const CallSyntax& syntax : format.syntaxes) {
      if (&find_syntax(format, syntax.marker) != &syntax) continue;
      all.push_back({std::string(format.name), std::string(syntax.marker)});
    }
  }
  return all;
}

std::vector<Template> templates_where(bool (*holds)(const ToolFormat&)) {
  std::vector<Template> some;
  for (const Template& of : templates()) {
    if (holds(*find_tool_format(of.format))) some.push_back(of);
  }
  return some;
}

std::string test_name(const testing::TestParamInfo<Template>& info) {
  std::string name = info.param.format + std::to_string(info.index);
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Formats, ToolCallGrammars, testing::ValuesIn(templates()), test_name);
INSTANTIATE_TEST_SUITE_P(Formats, SeveralToolCallGrammars,
                         testing::ValuesIn(templates_where([](const ToolFormat& format) {
                           return !format.has_one_call;
                         })),
                         test_name);
INSTANTIATE_TEST_SUITE_P(Formats, OptionalToolCallGrammars, testing::ValuesIn(templates()),
                         test_name);

bool has_schema(const GrammarNode& node) {
  return node.kind == GrammarNode::Kind::kSchema || std::ranges::any_of(node.parts, has_schema);
}

TEST(ToolCallGrammar, a_schema_that_a_syntax_cannot_express_uses_json) {
  const Json name = {Json::Fields{{"type", text("string")}, {"pattern", text("^[a-z]+$")}}};
  const std::vector<Json> tools = {tool("greet", {{"name", name}}, {"name"})};
  const Names none;
  const ToolFormat& xml = *find_tool_format("xml");
  const auto form = tool_call_grammar(
      {.tools = tools, .strict = none, .forced = ForcedCalls{}, .syntax = &find_syntax(xml, "")});
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(form->is_hermes);
  EXPECT_TRUE(has_schema(form->form->rules.rules.front()));
}

TEST(ToolCallGrammar, an_unknown_tool_is_rejected_by_name) {
  const std::vector<Json> tools = flat_tools();
  const Names none;
  const auto form =
      tool_call_grammar({.tools = tools, .strict = none, .forced = ForcedCalls{.names = {"fly"}}});
  ASSERT_FALSE(form.has_value());
  EXPECT_EQ(form.error().param, "tool_choice");
  EXPECT_NE(form.error().message.find("'fly'"), std::string::npos);
}

TEST(ToolCallGrammar, an_inexpressible_name_leaves_the_answer_unconstrained) {
  const std::vector<Json> tools = {tool("odd name", {}, {})};
  const Names strict = {"odd name"};
  const ToolFormat& xml = *find_tool_format("xml");
  const auto form =
      tool_call_grammar({.tools = tools, .strict = strict, .syntax = &find_syntax(xml, "")});
  ASSERT_TRUE(form.has_value());
  EXPECT_FALSE(form->form.has_value());
}

TEST(ToolCallGrammar, a_requested_json_answer_is_allowed_instead_of_calls) {
  const std::vector<Json> tools = flat_tools();
  const Names none;
  const StructuredOutput other{.kind = StructuredOutput::Kind::kJsonSchema,
                               .text = R"({"const": 7})"};
  const auto form = tool_call_grammar({.tools = tools, .strict = none, .other = other});
  ASSERT_TRUE(form.has_value());
  auto built = build_grammar(form->form->rules, {});
  ASSERT_TRUE(built.has_value()) << built.error().message;
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  const auto constraint = constrain::CompiledGrammar::make(
      std::move(*built), std::make_shared<const constrain::VocabularyTrie>(bytes));
  const auto reads = [&](std::string_view said) {
    constrain::GrammarMatcher matcher = constraint->start();
    return *matcher.accept_bytes(said) == said.size() && *matcher.is_complete();
  };
  EXPECT_TRUE(reads("7"));
  EXPECT_FALSE(reads("8"));
  EXPECT_TRUE(reads("<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
}

}  // namespace
}  // namespace kvik
