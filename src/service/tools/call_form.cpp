#include "service/tools/call_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "service/tools/call_writer.h"
#include "service/tools/tool_schemas.h"
#include "service/tools/value_reader.h"

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

// Of what a tool takes: an object, whatever its schema leaves unsaid.
std::string schema_of(const Data& tool) {
  const Data* parameters = find_field(function_in(tool), "parameters");
  const auto* fields = parameters ? std::get_if<Data::Fields>(&parameters->value) : nullptr;
  if (!fields || fields->empty()) return R"({"type": "object"})";
  return to_json(*parameters);
}

// A rule of a Lark grammar.
std::string rule_of(const Data& tool) {
  const std::string opening =
      fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": ", json_string(name_of(tool)));
  return fmt::format("{} %json {} {}", json_string(opening), schema_of(tool),
                     json_string("}\n</tool_call>"));
}

}  // namespace

Result<AnswerForm> form_of_call(const std::vector<Data>& tools, const ForcedCalls& forced) {
  const auto refuse = [](std::string message) {
    return fail(ErrorCode::kInvalidArgument, std::move(message), "tool_choice");
  };
  for (const std::string& name : forced.names) {
    const bool is_there =
        std::ranges::any_of(tools, [&](const Data& tool) { return name_of(tool) == name; });
    if (!is_there) return refuse(fmt::format("tool_choice names '{:.64}', which is no tool", name));
  }
  std::string start, rules;
  size_t n_rules = 0;
  for (const Data& tool : tools) {
    const bool may_come = forced.names.empty() ||
                          std::ranges::find(forced.names, name_of(tool)) != forced.names.end();
    if (!may_come || name_of(tool).empty()) continue;
    start += fmt::format("{}tool_{}", start.empty() ? "start: " : " | ", n_rules);
    rules += fmt::format("\ntool_{}: {}", n_rules, rule_of(tool));
    ++n_rules;
  }
  if (start.empty()) return refuse("tool_choice forces a call, but there are no tools");
  return AnswerForm{.kind = AnswerForm::Kind::kLark,
                    .text = start + rules,
                    .strictness = AnswerForm::Strictness::kRelaxed,
                    .param = "tool_choice"};
}

}  // namespace kvik
