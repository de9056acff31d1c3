#include "server/dialects/chat/chat_request.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/json_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxTools = 1'024;
constexpr size_t kMaxKwargs = 64;
constexpr size_t kMaxMarks = 4;  // as Anthropic's

std::string to_string(json::string_view text) { return {text.data(), text.size()}; }

jinja::Value given(json::string_view text) {
  return jinja::make_text(to_string(text), jinja::Origin::kGiven);
}

jinja::Value to_value(const json::value& value) {
  if (value.is_bool()) return value.get_bool();
  if (value.is_int64()) return value.get_int64();
  if (value.is_number()) return value.to_number<double>();
  if (value.is_string()) return given(value.get_string());
  if (value.is_array()) {
    std::vector<jinja::Value> items;
    for (const json::value& item : value.get_array()) items.push_back(to_value(item));
    return jinja::make_list(std::move(items));
  }
  if (value.is_object()) {
    jinja::Dict dict;
    for (const auto& item : value.get_object()) {
      dict.entries.emplace_back(given(item.key()), to_value(item.value()));
    }
    return jinja::Value(std::move(dict));
  }
  return jinja::None{};
}

std::unexpected<Error> refuse(std::string_view param, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::string(param));
}

// Notes that what was read up to here is marked, where the part says so.
Result<void> read_mark(const json::object& part, ChatMark mark, std::vector<ChatMark>& marks) {
  TRY_ASSIGN(const auto ttl, read_cache_control(JsonFields(part)));
  if (!ttl) return {};
  if (marks.size() == kMaxMarks) {
    return refuse("cache_control",
                  fmt::format("more than {} parts have a cache_control", kMaxMarks));
  }
  mark.ttl = *ttl;
  marks.push_back(mark);
  return {};
}

// A string, null, or parts; parts that are all text become one string. `n_message` is the message's
// index.
Result<jinja::Value> read_content(const json::value& content, size_t n_message,
                                  std::vector<ChatMark>& marks) {
  if (content.is_string() || content.is_null()) return to_value(content);
  if (!content.is_array()) return wrong_type("messages", "content as a string or parts", content);
  std::string text;
  for (const json::value& part : content.get_array()) {
    const json::object* object = part.if_object();
    const json::value* words = object ? object->if_contains("text") : nullptr;
    const json::value* type = object ? object->if_contains("type") : nullptr;
    if (!words || !words->is_string() ||
        (type && !(type->is_string() && type->get_string() == "text"))) {
      return refuse("messages", "a part of a message's content is no text, expected only text");
    }
    if (!text.empty()) text += "\n";
    text += to_string(words->get_string());
    TRY(read_mark(*object, {.message = n_message, .n_bytes = text.size()}, marks));
  }
  return jinja::make_text(std::move(text), jinja::Origin::kGiven);
}

// {"function": {"arguments": "{…}"}}: the arguments as an object.
jinja::Value read_tool_calls(json::value calls) {
  if (!calls.is_array()) return to_value(calls);
  for (json::value& call : calls.get_array()) {
    json::value* function = call.is_object() ? call.get_object().if_contains("function") : nullptr;
    json::value* arguments = function && function->is_object()
                                 ? function->get_object().if_contains("arguments")
                                 : nullptr;
    if (!arguments || !arguments->is_string()) continue;
    boost::system::error_code error;
    json::value parsed = json::parse(arguments->get_string(), error);
    if (!error && parsed.is_object()) *arguments = std::move(parsed);
  }
  return to_value(calls);
}

Result<jinja::Value> read_message(const json::value& message, size_t n_message,
                                  std::vector<ChatMark>& marks) {
  const json::object* object = message.if_object();
  if (!object) return wrong_type("messages", "an array of objects", message);
  const json::value* role = object->if_contains("role");
  if (!role || !role->is_string()) return refuse("messages", "a message has no role");
  jinja::Dict dict;
  for (const auto& item : *object) {
    jinja::Value value;
    if (item.key() == "content") {
      TRY_ASSIGN(value, read_content(item.value(), n_message, marks));
    } else if (item.key() == "tool_calls") {
      value = read_tool_calls(item.value());
    } else {
      value = to_value(item.value());
    }
    dict.entries.emplace_back(given(item.key()), std::move(value));
  }
  return jinja::Value(std::move(dict));
}

Result<jinja::Value> read_messages(const JsonFields& fields, std::vector<ChatMark>& marks) {
  TRY_ASSIGN(const auto array, fields.array("messages"));
  if (!array || (*array)->empty()) return refuse("messages", "messages is missing or empty");
  if ((*array)->size() > RequestBounds::kMessages) {
    return refuse("messages", fmt::format("messages holds {} messages, at most {} are allowed",
                                          (*array)->size(), RequestBounds::kMessages));
  }
  std::vector<jinja::Value> messages;
  for (const json::value& message : **array) {
    TRY_ASSIGN(jinja::Value value, read_message(message, messages.size(), marks));
    messages.push_back(std::move(value));
  }
  return jinja::make_list(std::move(messages));
}

Result<jinja::Value> read_tools(const JsonFields& fields, std::vector<ChatMark>& marks) {
  TRY_ASSIGN(const auto array, fields.array("tools"));
  if (!array || (*array)->empty()) return jinja::Value(jinja::None{});
  if ((*array)->size() > kMaxTools) {
    return refuse("tools", fmt::format("tools holds {} tools, at most {} are allowed",
                                       (*array)->size(), kMaxTools));
  }
  // A mark on any tool is taken for one behind all of them: they are written as one piece.
  std::vector<jinja::Value> tools;
  for (const json::value& tool : **array) {
    if (!tool.is_object()) return wrong_type("tools", "an array of objects", tool);
    TRY(read_mark(tool.get_object(), {}, marks));
    json::object shown = tool.get_object();
    shown.erase("cache_control");
    tools.push_back(to_value(shown));
  }
  return jinja::make_list(std::move(tools));
}

}  // namespace

Result<ChatRequest> read_chat_request(const json::object& object) {
  const JsonFields fields(object);
  ChatRequest request;
  TRY_ASSIGN(request.messages, read_messages(fields, request.marks));
  TRY_ASSIGN(request.tools, read_tools(fields, request.marks));
  const json::value* choice = fields.find("tool_choice");
  const bool is_none = choice && choice->is_string() && choice->get_string() == "none";
  const bool is_auto = !choice || (choice->is_string() && choice->get_string() == "auto");
  if (is_none) request.tools = jinja::None{};
  if (!is_none && !is_auto) {
    return fail(ErrorCode::kUnsupported, "a forced tool_choice is not supported", "tool_choice");
  }
  TRY_ASSIGN(const auto continues, fields.boolean("continue_final_message"));
  request.continue_final_message = continues.value_or(false);
  TRY_ASSIGN(const auto adds_prompt, fields.boolean("add_generation_prompt"));
  request.add_generation_prompt = adds_prompt.value_or(!request.continue_final_message);
  TRY_ASSIGN(const auto kwargs, fields.object("chat_template_kwargs"));
  if (kwargs && (*kwargs)->size() > kMaxKwargs) {
    return refuse("chat_template_kwargs",
                  fmt::format("chat_template_kwargs holds {} names, at most {} are allowed",
                              (*kwargs)->size(), kMaxKwargs));
  }
  if (kwargs) {
    for (const auto& item : **kwargs) {
      request.kwargs.emplace_back(to_string(item.key()), to_value(item.value()));
    }
  }
  return request;
}

}  // namespace kvik
