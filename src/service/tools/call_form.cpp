#include "service/tools/call_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "service/answer_syntax.h"
#include "service/tools/argument_rules.h"
#include "service/tools/call_writer.h"
#include "service/tools/tool_schemas.h"

namespace kvik {
namespace {

const Data& function_in(const Data& tool) {
  const Data* function = find_field(tool, "function");
  return function ? *function : tool;
}

std::string name_of(const Data& tool) {
  const Data* name = find_field(function_in(tool), "name");
  const auto* text = name ? std::get_if<std::string>(&name->value) : nullptr;
  return text ? *text : "";
}

Result<void> check_names(const CallWish& wish) {
  if (!wish.forced) return {};
  const auto refuse = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message), "tool_choice");
  };
  for (const std::string& name : wish.forced->names) {
    const bool is_there =
        std::ranges::any_of(wish.tools, [&](const Data& tool) { return name_of(tool) == name; });
    if (!is_there) return refuse(fmt::format("tool_choice names '{:.64}', which is no tool", name));
  }
  const bool has_tool =
      std::ranges::any_of(wish.tools, [](const Data& tool) { return !name_of(tool).empty(); });
  if (!has_tool) return refuse("tool_choice forces a call, but there are no tools");
  return {};
}

class FormWriter {
 public:
  FormWriter(const CallWish& wish, const CallSyntax& syntax) : wish_(wish), syntax_(syntax) {}

  // nullopt: the syntax cannot keep to what must be kept.
  std::optional<std::string> grammar() const;

 private:
  bool may_come(const std::string& name) const {
    if (name.empty()) return false;
    if (!wish_.forced || wish_.forced->names.empty()) return true;
    return std::ranges::find(wish_.forced->names, name) != wish_.forced->names.end();
  }
  // Where text may come in the place of calls, only what is strict is kept to: a model that was not
  // told so writes as it is used to.
  bool is_kept(const std::string& name) const {
    return wish_.forced || wish_.strict.contains(name);
  }
  bool has_channels() const {
    return std::ranges::any_of(wish_.formats, &ToolFormat::has_channels);
  }
  std::string before() const;
  std::string start() const;
  std::string calls() const;
  std::string bare_calls() const;
  bool has_bare_calls() const {
    const auto is_strict = [this](const Data& tool) {
      return wish_.strict.contains(name_of(tool));
    };
    return !wish_.forced && !wish_.other && std::ranges::any_of(wish_.tools, is_strict);
  }

  const CallWish& wish_;
  const CallSyntax& syntax_;
};

// Returns the text that may stand in the place of calls, or before them.
std::string FormWriter::before() const {
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
  return text_without(marks, begins_answer ? R"([^\s{])" : "", strict);
}

// Calls of strict tools that a model writes without markup. They begin with an object's brace; what
// precedes it is text.
std::string FormWriter::bare_calls() const {
  std::string any, rules;
  for (size_t i = 0; i < wish_.tools.size(); ++i) {
    const std::string name = name_of(wish_.tools[i]);
    if (!wish_.strict.contains(name)) continue;
    const auto arguments = json_arguments(find_field(function_in(wish_.tools[i]), "parameters"));
    any += fmt::format("{}bare_{}", any.empty() ? "" : " | ", i);
    rules += fmt::format(
        "\nbare_{}: /{}\\s{{0,8}},\\s{{0,8}}\"(arguments|parameters)\"\\s{{0,8}}:/ "
        "/\\s{{0,8}}/ {} /\\s{{0,8}}\\}}\\}}?/",
        i, bare_opening_pattern(name), arguments);
  }
  const std::string more = wish_.may_be_several ? " (bare_between bare)*" : "";
  return fmt::format(
      "bare_calls: bare{} /\\s{{0,8}}(\\]\\s{{0,8}})?(```)?\\s{{0,8}}/\n"
      "bare_between: /[\\s,;]{{0,16}}(```\\s{{0,8}}```(json)?\\s{{0,8}})?/\n"
      "bare: {}{}",
      more, any, rules);
}

// One call, or several. After each the answer may end, also after white space: a model that is done
// writes a newline first, which also stands between calls.
std::string FormWriter::calls() const {
  const std::string begin = fmt::format("{} call", literal(syntax_.answer_begin()));
  const std::string end = literal(syntax_.answer_end());
  if (!wish_.may_be_several) return fmt::format("{} {}", begin, end);
  const std::string all = fmt::format("{} ({} call)*", begin, literal(syntax_.separator));
  return fmt::format(R"({} /[ \n]{{0,2}}/ {})", all, end);
}

// In harmony words and calls are messages of their own, each with its header.
std::string FormWriter::start() const {
  if (wish_.forced) return "start: calls";
  const std::string header = has_channels() ? literal(kFinalHeader) + " " : std::string();
  if (wish_.other) {
    const bool is_object = wish_.other->kind == AnswerForm::Kind::kJsonObject;
    return fmt::format("start: calls | {}%json {}", header,
                       is_object ? R"({"type": "object"})" : wish_.other->text);
  }
  if (!has_channels()) {
    std::string start = "start: before | before calls";
    if (has_bare_calls()) start += " | before bare_calls\n" + bare_calls();
    return start + "\nbefore: " + before();
  }
  return fmt::format(
      "start: calls | {}before\nbefore: {}", header,
      text_without(
          std::vector<std::string_view>{"<|start|>", "<|channel|>", "<|message|>", "<|end|>"}, ""));
}

std::optional<std::string> FormWriter::grammar() const {
  std::string any, rules;
  for (size_t i = 0; i < wish_.tools.size(); ++i) {
    const std::string name = name_of(wish_.tools[i]);
    if (!may_come(name)) continue;
    const bool is_word = name.find_first_of("<>{}[]()\"'`\\ \n:") == name.npos;
    if (!is_word && !syntax_.has_quoted_name()) return std::nullopt;
    const std::string rule = fmt::format("tool_{}", i);
    auto arguments =
        is_kept(name)
            ? argument_rules(syntax_, find_field(function_in(wish_.tools[i]), "parameters"), rule)
            : free_arguments(syntax_);
    if (!arguments && wish_.forced) return std::nullopt;
    if (!arguments) arguments = free_arguments(syntax_);
    std::string opening = syntax_.call_begin() + (syntax_.has_quoted_name() ? literal(name) : name);
    std::string numbered = literal(opening + std::string(syntax_.between));
    if (syntax_.has_numbered_names) {
      numbered =
          fmt::format("{} /[0-9]{{1,3}}/ {}", literal(opening + ":"), literal(syntax_.between));
    }
    any += fmt::format("{}{}", any.empty() ? "" : " | ", rule);
    rules += fmt::format("\n{}: {} {} {}{}", rule, numbered, arguments->body,
                         literal(syntax_.call_end()), arguments->rules);
  }
  if (any.empty()) return std::nullopt;
  return fmt::format("{}\ncalls: {}\ncall: {}{}", start(), calls(), any, rules);
}

}  // namespace

Result<CallForm> form_of_calls(const CallWish& wish) {
  TRY(check_names(wish));
  const CallSyntax& hermes = find_syntax(hermes_format(), "");
  const CallSyntax& own = wish.syntax ? *wish.syntax : hermes;
  auto grammar = FormWriter(wish, own).grammar();
  const bool is_hermes = !grammar;
  if (!grammar && !wish.forced) return CallForm{};
  if (!grammar) grammar = FormWriter(wish, hermes).grammar();
  if (!grammar) {
    return fail(ErrorCode::kInvalidArgument, "no tool that tool_choice allows has a name",
                "tool_choice");
  }
  const bool is_relaxed = wish.strict.empty();
  using Strictness = AnswerForm::Strictness;
  return CallForm{
      .form = AnswerForm{.kind = AnswerForm::Kind::kLark,
                         .text = std::move(*grammar),
                         .strictness = is_relaxed ? Strictness::kRelaxed : Strictness::kStrict,
                         .style = wish.style,
                         .param = wish.forced ? "tool_choice" : "tools",
                         .brings_header = !is_hermes},
      .is_hermes = is_hermes};
}

}  // namespace kvik
