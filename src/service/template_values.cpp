#include "service/template_values.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "service/tools/call_writer.h"

namespace kvik {
namespace {

jinja::Value given(std::string text) {
  return jinja::make_text(std::move(text), jinja::Origin::kGiven);
}

void add(jinja::Dict& dict, const char* name, jinja::Value value) {
  dict.entries.emplace_back(given(name), std::move(value));
}

// {"id": …, "type": "function", "function": {"name": …, "arguments": …}}
jinja::Value template_value(const ToolCall& call) {
  jinja::Dict function;
  add(function, "name", given(call.name));
  add(function, "arguments", template_value(call.arguments));
  jinja::Dict dict;
  add(dict, "id", call.id ? given(*call.id) : jinja::None{});
  add(dict, "type", given("function"));
  add(dict, "function", jinja::Value(std::move(function)));
  return jinja::Value(std::move(dict));
}

// Returns all parts of one kind, joined by line breaks; nullopt if there are none.
template <class Part>
std::optional<std::string> joined(const Message& message) {
  std::optional<std::string> text;
  for (const MessagePart& any : message.parts) {
    const Part* part = std::get_if<Part>(&any);
    if (!part) continue;
    if (!text) text.emplace();
    if (!text->empty()) *text += "\n";
    *text += part->text;
  }
  return text;
}

jinja::Value value_of(const Json::Fields& fields) {
  jinja::Dict dict;
  for (const auto& [name, field] : fields) {
    dict.entries.emplace_back(given(name), template_value(field));
  }
  return jinja::Value(std::move(dict));
}

jinja::Value value_of(Json::Null) { return jinja::None{}; }
jinja::Value value_of(const std::string& text) { return given(text); }
jinja::Value value_of(const Json::List& list) { return template_list(list); }
jinja::Value value_of(const Json::Number& number) {
  return Json{number}.number().value_or(std::numeric_limits<double>::infinity());
}
template <class Plain>
jinja::Value value_of(Plain plain) {
  return plain;
}

}  // namespace

std::vector<ToolCall> calls_of(const Message& message) {
  std::vector<ToolCall> calls;
  for (const MessagePart& part : message.parts) {
    if (const auto* call = std::get_if<ToolCall>(&part)) calls.push_back(*call);
  }
  return calls;
}

std::string text_of(const Message& message) { return joined<TextPart>(message).value_or(""); }

jinja::Value template_value(const Json& data) {
  return std::visit([](const auto& value) { return value_of(value); }, data.value);
}

jinja::Value template_value(const Message& message, const MessageFormat& needs) {
  jinja::Dict dict;
  add(dict, "role", given(message.role));
  std::vector<ToolCall> to_write;
  if (needs.writes_calls_as) to_write = calls_of(message);
  if (!to_write.empty()) {
    jinja::Text content(text_of(message), jinja::Origin::kGiven);
    content.append(written_calls(*needs.writes_calls_as, to_write));
    add(dict, "content", jinja::Value(std::move(content)));
  } else if (auto text = joined<TextPart>(message)) {
    add(dict, "content", given(std::move(*text)));
  }
  if (auto text = joined<ReasoningPart>(message)) {
    if (needs.reads_thinking) add(dict, "thinking", given(*text));
    add(dict, "reasoning_content", given(std::move(*text)));
  }
  for (const auto& [name, value] : message.further) {
    add(dict, name.c_str(), template_value(value));
  }
  std::vector<jinja::Value> calls;
  if (to_write.empty()) {
    for (const ToolCall& call : calls_of(message)) calls.push_back(template_value(call));
  }
  if (!calls.empty()) add(dict, "tool_calls", jinja::make_list(std::move(calls)));
  if (message.tool_call_id) add(dict, "tool_call_id", given(*message.tool_call_id));
  if (message.name) add(dict, "name", given(*message.name));
  return jinja::Value(std::move(dict));
}

}  // namespace kvik
