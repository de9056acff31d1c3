#include "service/tools/call_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "service/tools/value_reader.h"

namespace kvik {
namespace {

using Values = CallSyntax::Values;

// Writes values as JSON, in Python syntax, or in Gemma's.
struct Notation {
  Values language = Values::kJson;

  bool is_json() const { return language == Values::kJson; }
  std::string operator()(Json::Null) const { return is_json() ? "null" : "None"; }
  std::string operator()(bool value) const {
    if (is_json()) return value ? "true" : "false";
    return value ? "True" : "False";
  }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const {
    if (!std::isfinite(value)) return (*this)(Json::Null{});
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == text.npos) text += ".0";
    return text;
  }
  std::string operator()(const Json::Number& value) const { return value.text; }
  std::string operator()(const std::string& value) const {
    if (language == Values::kGemma) return fmt::format("{0}{1}{0}", kGemmaValues.quotes[0], value);
    return json_string(value);
  }
  std::string operator()(const Json::List& list) const {
    std::string text = "[";
    for (const Json& item : list) {
      if (text.size() > 1) text += ", ";
      text += std::visit(*this, item.value);
    }
    return text += ']';
  }
  std::string operator()(const Json::Fields& fields) const {
    return fmt::format("{{{}}}", members(fields, ": "));
  }
  // KEY: VALUE, …; keys are quoted except in Gemma's objects and in a Python call.
  std::string members(const Json::Fields& fields, std::string_view after_key) const {
    const bool has_bare_keys = language == Values::kGemma || after_key == "=";
    std::string text;
    for (const auto& [name, data] : fields) {
      if (!text.empty()) text += ", ";
      text += has_bare_keys ? name : json_string(name);
      text += after_key;
      text += std::visit(*this, data.value);
    }
    return text;
  }
};

std::string json_arguments_of(const ToolCall& call) {
  const auto* text = std::get_if<std::string>(&call.arguments.value);
  const std::string json = text ? read_json(*text) : std::string();
  return json.empty() ? to_json(call.arguments) : json;
}

// Writes calls in one syntax. The origin of marks is the template; that of names and arguments is
// the client.
class CallTextWriter {
 public:
  explicit CallTextWriter(const CallSyntax& syntax) : syntax_(syntax) {}

  jinja::Text write(const std::vector<ToolCall>& calls) && {
    mark(syntax_.answer_begin());
    for (const ToolCall& call : calls) {
      if (&call != &calls.front()) mark(syntax_.separator);
      name(call);
      mark(syntax_.between);
      arguments(call);
      mark(syntax_.call_end());
    }
    mark(syntax_.answer_end());
    return std::move(text_);
  }

 private:
  void mark(std::string_view text) { text_.append(text, jinja::Origin::kTemplate); }
  void given(std::string_view text) { text_.append(text, jinja::Origin::kGiven); }

  void name(const ToolCall& call) {
    const std::string begin = syntax_.call_begin();
    if (syntax_.has_numbered_names) {  // the number is part of the call's id
      mark(std::string_view(begin).substr(0, begin.size() - syntax_.name.size()));
      return given(call.id.value_or(call.name));
    }
    mark(begin);
    given(syntax_.has_quoted_name() ? json_string(call.name) : call.name);
  }

  void arguments(const ToolCall& call) {
    const auto* fields = std::get_if<Json::Fields>(&call.arguments.value);
    if (syntax_.has_json_arguments()) return given(json_arguments_of(call));
    if (!fields) return;
    if (syntax_.values == Values::kParameters) return parameters(*fields);
    if (syntax_.values == Values::kElements) return elements(*fields);
    const std::string_view after_key = syntax_.values == Values::kPython ? "=" : ":";
    given(Notation{syntax_.values}.members(*fields, after_key));
  }

  void elements(const Json::Fields& fields) {
    for (const auto& [name, data] : fields) element(name, data);
  }

  void element(std::string_view name, const Json& data) {
    mark(kTagNamespace);
    mark("<");
    given(name);
    mark(">");
    if (const auto* fields = std::get_if<Json::Fields>(&data.value)) {
      elements(*fields);
    } else if (const auto* list = std::get_if<Json::List>(&data.value)) {
      for (const Json& item : *list) element("item", item);
    } else {
      const auto* words = std::get_if<std::string>(&data.value);
      given(words ? *words : to_json(data));
    }
    mark(kTagNamespace);
    mark("</");
    given(name);
    mark(">");
  }

  void parameters(const Json::Fields& fields) {
    for (const auto& [name, data] : fields) {
      const auto* words = std::get_if<std::string>(&data.value);
      const bool is_json = !words && !syntax_.after_json_key.empty();
      mark(syntax_.key);
      given(name);
      mark(is_json ? syntax_.after_json_key : syntax_.after_key);
      const bool has_quotes = words && syntax_.needs_quotes(*words);
      if (has_quotes) mark(syntax_.quote);
      given(words ? *words : to_json(data));
      if (has_quotes) mark(syntax_.end_quote);
      mark(syntax_.after_value);
    }
  }

  const CallSyntax& syntax_;
  jinja::Text text_;
};

}  // namespace

std::string to_json(const Json& data) { return std::visit(Notation(), data.value); }

jinja::Text written_calls(const ToolFormat& format, const std::vector<ToolCall>& calls) {
  return calls.empty() ? jinja::Text() : CallTextWriter(format.syntaxes.front()).write(calls);
}

std::string tools_system_prompt(const std::vector<Json>& tools) {
  std::string text =
      "# Tools\n\nYou can call the functions that are described by these JSON schemas, one in a "
      "line:\n<tools>\n";
  for (const Json& tool : tools) {
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
