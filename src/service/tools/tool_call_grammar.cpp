#include "service/tools/tool_call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "service/answer_syntax.h"
#include "service/tools/argument_rules.h"
#include "service/tools/call_writer.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

namespace kvik {
namespace {

const Json& function_in(const Json& tool) {
  const Json* function = find_field(tool, "function");
  return function ? *function : tool;
}

std::string name_of(const Json& tool) {
  const Json* name = find_field(function_in(tool), "name");
  const auto* text = name ? std::get_if<std::string>(&name->value) : nullptr;
  return text ? *text : "";
}

Result<void> check_names(const ToolCallRequirements& requested) {
  if (!requested.forced) return {};
  const auto refuse = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message), "tool_choice");
  };
  for (const std::string& name : requested.forced->names) {
    const bool is_there = std::ranges::any_of(
        requested.tools, [&](const Json& tool) { return name_of(tool) == name; });
    if (!is_there)
      return refuse(fmt::format("tool_choice names '{:.64}', which is not a declared tool", name));
  }
  const bool has_tool =
      std::ranges::any_of(requested.tools, [](const Json& tool) { return !name_of(tool).empty(); });
  if (!has_tool) return refuse("tool_choice forces a call, but there are no tools");
  return {};
}

GrammarNode text(std::string_view words) { return GrammarNode::of_text(std::string(words)); }

class GrammarWriter {
 public:
  GrammarWriter(const ToolCallRequirements& requested, const CallSyntax& syntax)
      : wish_(requested), syntax_(syntax) {}

  // Returns nullopt if the syntax cannot express an enforced schema.
  std::optional<GrammarRules> write() &&;

 private:
  bool may_come(const std::string& name) const {
    if (name.empty()) return false;
    if (!wish_.forced || wish_.forced->names.empty()) return true;
    return std::ranges::find(wish_.forced->names, name) != wish_.forced->names.end();
  }
  // If calls are optional, only strict schemas are enforced: a model that was not prompted for the
  // others writes calls in its usual way.
  bool is_kept(const std::string& name) const {
    return wish_.forced || wish_.strict.contains(name);
  }
  bool has_channels() const {
    return std::ranges::any_of(wish_.formats, &ToolFormat::has_channels);
  }
  std::optional<GrammarNode> call(const Json& tool);
  GrammarNode calls(GrammarNode any_call);
  GrammarNode before() const;
  GrammarNode bare_call(const Json& tool) const;
  GrammarNode start(GrammarNode calls);
  GrammarNode bare_calls();
  bool has_bare_calls() const {
    const auto is_strict = [this](const Json& tool) {
      return wish_.strict.contains(name_of(tool));
    };
    return !wish_.forced && !wish_.other && std::ranges::any_of(wish_.tools, is_strict);
  }

  const ToolCallRequirements& wish_;
  const CallSyntax& syntax_;
  GrammarRules rules_;
};

// Returns a node for the text that may replace calls or precede them.
GrammarNode GrammarWriter::before() const {
  std::vector<std::string_view> marks;
  bool begins_answer = false;
  for (const ToolFormat* format : wish_.formats) {
    for (const CallSteps::Begin& begin : format->reading.begins) {
      if (begin.begins_answer) begins_answer = true;
      if (!begin.mark.empty() && !begin.begins_answer) marks.push_back(begin.mark);
    }
  }
  std::vector<std::string> strict;  // beginnings of calls without markup
  for (const std::string& name : wish_.strict) strict.push_back(bare_opening_pattern(name));
  return text_excluding(marks, begins_answer ? R"([^\s{])" : "", strict);
}

// Returns a node for a call of a strict tool without markup. It begins with the object's brace;
// text before the brace is part of before().
GrammarNode GrammarWriter::bare_call(const Json& tool) const {
  return GrammarNode::sequence(
      {GrammarNode::of_pattern(bare_opening_pattern(name_of(tool)) +
                               R"re(\s{0,8},\s{0,8}"(arguments|parameters)"\s{0,8}:)re"),
       GrammarNode::of_pattern(R"(\s{0,8})"),
       json_arguments(find_field(function_in(tool), "parameters")),
       GrammarNode::of_pattern(R"(\s{0,8}\}\}?)")});
}

GrammarNode GrammarWriter::bare_calls() {
  std::vector<GrammarNode> any;
  for (const Json& tool : wish_.tools) {
    if (wish_.strict.contains(name_of(tool))) any.push_back(bare_call(tool));
  }
  const GrammarNode bare = rules_.add(GrammarNode::choice(std::move(any)));
  std::vector<GrammarNode> all = {bare};
  if (wish_.may_be_several) {
    const auto separator = GrammarNode::of_pattern(R"([\s,;]{0,16}(```\s{0,8}```(json)?\s{0,8})?)");
    all.push_back(
        GrammarNode::repeat(GrammarNode::sequence({separator, bare}), 0, GrammarNode::kUnbounded));
  }
  all.push_back(GrammarNode::of_pattern(R"(\s{0,8}(\]\s{0,8})?(```)?\s{0,8})"));
  return GrammarNode::sequence(std::move(all));
}

// Returns a node for one or several calls. The answer may end after each of them, also after white
// space: a model often writes a line break before it stops, and a line break also separates calls.
GrammarNode GrammarWriter::calls(GrammarNode any_call) {
  std::vector<GrammarNode> all = {text(syntax_.answer_begin()), any_call};
  if (wish_.may_be_several) {
    all.push_back(
        GrammarNode::repeat(GrammarNode::sequence({text(syntax_.separator), std::move(any_call)}),
                            0, GrammarNode::kUnbounded));
    all.push_back(GrammarNode::of_pattern("[ \\n]{0,2}"));
  }
  all.push_back(text(syntax_.answer_end()));
  return GrammarNode::sequence(std::move(all));
}

// Returns the start rule. In harmony, text and calls are separate messages, each with its own
// header.
GrammarNode GrammarWriter::start(GrammarNode calls) {
  if (wish_.forced) return calls;
  const GrammarNode header = text(has_channels() ? kFinalHeader : "");
  if (wish_.other) {
    const bool is_object = wish_.other->kind == StructuredOutput::Kind::kJsonObject;
    auto json = is_object ? json_arguments(nullptr) : GrammarNode::of_schema(wish_.other->text);
    return GrammarNode::choice(
        {std::move(calls), GrammarNode::sequence({header, std::move(json)})});
  }
  if (has_channels()) {
    const auto message = text_excluding({"<|start|>", "<|channel|>", "<|message|>", "<|end|>"});
    return GrammarNode::choice({std::move(calls), GrammarNode::sequence({header, message})});
  }
  const GrammarNode text = rules_.add(before());
  std::vector<GrammarNode> all = {text, GrammarNode::sequence({text, std::move(calls)})};
  if (has_bare_calls()) all.push_back(GrammarNode::sequence({text, bare_calls()}));
  return GrammarNode::choice(std::move(all));
}

std::optional<GrammarNode> GrammarWriter::call(const Json& tool) {
  const std::string name = name_of(tool);
  const bool is_word = name.find_first_of("<>{}[]()\"'`\\ \n:") == name.npos;
  if (!is_word && !syntax_.has_quoted_name()) return std::nullopt;
  auto arguments =
      is_kept(name) ? argument_rules(syntax_, find_field(function_in(tool), "parameters"), rules_)
                    : free_arguments(syntax_);
  if (!arguments && wish_.forced) return std::nullopt;
  if (!arguments) arguments = free_arguments(syntax_);
  const std::string opening =
      syntax_.call_begin() + (syntax_.has_quoted_name() ? json_string(name) : name);
  std::vector<GrammarNode> parts = {text(opening)};
  if (syntax_.has_numbered_names) {
    parts = {text(opening + ":"), GrammarNode::of_pattern("[0-9]{1,3}")};
  }
  parts.insert(parts.end(),
               {text(syntax_.between), std::move(*arguments), text(syntax_.call_end())});
  return GrammarNode::sequence(std::move(parts));
}

std::optional<GrammarRules> GrammarWriter::write() && {
  std::vector<GrammarNode> any;
  for (const Json& tool : wish_.tools) {
    if (!may_come(name_of(tool))) continue;
    auto one = call(tool);
    if (!one) return std::nullopt;
    any.push_back(std::move(*one));
  }
  if (any.empty()) return std::nullopt;
  GrammarNode all = calls(rules_.add(GrammarNode::choice(std::move(any))));
  rules_.add(start(std::move(all)));
  return std::move(rules_);
}

}  // namespace

Result<ToolCallGrammar> tool_call_grammar(const ToolCallRequirements& requested) {
  TRY(check_names(requested));
  const CallSyntax& hermes = find_syntax(hermes_format(), "");
  const CallSyntax& own = requested.syntax ? *requested.syntax : hermes;
  auto grammar = GrammarWriter(requested, own).write();
  const bool is_hermes = !grammar;
  if (!grammar && !requested.forced) return ToolCallGrammar{};
  if (!grammar) grammar = GrammarWriter(requested, hermes).write();
  if (!grammar) {
    return fail(ErrorCode::kInvalidArgument, "no tool that tool_choice allows has a name",
                "tool_choice");
  }
  const bool is_relaxed = requested.strict.empty();
  using Strictness = StructuredOutput::Strictness;
  return ToolCallGrammar{
      .form =
          StructuredOutput{.kind = StructuredOutput::Kind::kRules,
                           .rules = std::move(*grammar),
                           .strictness = is_relaxed ? Strictness::kRelaxed : Strictness::kStrict,
                           .style = requested.style,
                           .param = requested.forced ? "tool_choice" : "tools",
                           .includes_header = !is_hermes},
      .is_hermes = is_hermes};
}

}  // namespace kvik
