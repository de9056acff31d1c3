#include "service/tools/call_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "service/tools/value_reader.h"

namespace kvik {
namespace {

using Style = ToolFormat::Writing::Style;

struct Notation {
  bool is_python;  // True, None and kin

  std::string operator()(Data::Null) const { return is_python ? "None" : "null"; }
  std::string operator()(bool value) const {
    if (is_python) return value ? "True" : "False";
    return value ? "true" : "false";
  }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    if (!std::isfinite(value)) return (*this)(Data::Null{});
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == text.npos) text += ".0";
    return text;
  }
  std::string operator()(const std::string& value) const { return json_string(value); }
  std::string operator()(const Data::List& list) const {
    std::string text = "[";
    for (const Data& item : list) {
      if (text.size() > 1) text += ", ";
      text += std::visit(*this, item.value);
    }
    return text += ']';
  }
  std::string operator()(const Data::Fields& fields) const {
    std::string text = "{";
    for (const auto& [name, data] : fields) {
      if (text.size() > 1) text += ", ";
      text += json_string(name);
      text += ": ";
      text += std::visit(*this, data.value);
    }
    return text += '}';
  }
};

// NAME(KEY="VALUE", …)
std::string python_call(const ToolCall& call) {
  std::string text = call.name;
  text += '(';
  if (const auto* fields = std::get_if<Data::Fields>(&call.arguments.value)) {
    for (const auto& [name, data] : *fields) {
      if (!text.ends_with('(')) text += ", ";
      text += name;
      text += '=';
      text += std::visit(Notation{.is_python = true}, data.value);
    }
  }
  return text += ')';
}

}  // namespace

std::string to_json(const Data& data) {
  return std::visit(Notation{.is_python = false}, data.value);
}

std::string json_call(const ToolCall& call) {
  const auto* text = std::get_if<std::string>(&call.arguments.value);
  return fmt::format(R"({{"name": {}, "arguments": {}}})", json_string(call.name),
                     text && is_json(*text) ? *text : to_json(call.arguments));
}

jinja::Text written_calls(const ToolFormat& format, const std::vector<ToolCall>& calls) {
  const ToolFormat::Writing& writing = format.writing;
  jinja::Text text;
  for (const ToolCall& call : calls) {
    text.append(text.empty() ? writing.begin : writing.between, jinja::Origin::kTemplate);
    if (writing.style == Style::kNumbered) {
      text.append(call.id.value_or(call.name), jinja::Origin::kGiven);
      text.append(writing.behind_name, jinja::Origin::kTemplate);
      text.append(to_json(call.arguments), jinja::Origin::kGiven);
      continue;
    }
    text.append(writing.style == Style::kPython ? python_call(call) : json_call(call),
                jinja::Origin::kGiven);
  }
  if (!calls.empty()) text.append(writing.end, jinja::Origin::kTemplate);
  return text;
}

std::string tools_in_words(const std::vector<Data>& tools) {
  std::string text =
      "# Tools\n\nYou can call the functions that are described by these JSON schemas, one in a "
      "line:\n<tools>\n";
  for (const Data& tool : tools) {
    text += to_json(tool);
    text += '\n';
  }
  text +=
      "</tools>\n\nTo call a function, write its name and its arguments as a JSON object between "
      "<tool_call> and </tool_call>, and nothing behind it:\n<tool_call>\n{\"name\": \"NAME\", "
      "\"arguments\": {\"KEY\": VALUE}}\n</tool_call>\nSeveral calls come one after the other. "
      "What the functions answer is given to you between <tool_response> and </tool_response>.";
  return text;
}

}  // namespace kvik
