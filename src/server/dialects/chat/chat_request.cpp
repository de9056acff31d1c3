#include "server/dialects/chat/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "server/dialects/chat_fields.h"
#include "server/dialects/json_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Reads a string, null, or text parts.
Result<void> read_content(const json::value& content, CacheMarks& marks, Message& message) {
  if (content.is_null()) {
    message.further.push_back({"content", owned_json(content)});
    return {};
  }
  const TextWords words{.param = "messages",
                        .expected = "content as a string or parts",
                        .made_of = "",
                        .types = {"text", ""}};
  TRY_ASSIGN(const auto parts, read_texts(content, words, marks));
  if (parts.empty()) message.parts.push_back(TextPart{});
  message.parts.insert(message.parts.end(), parts.begin(), parts.end());
  return {};
}

bool has_keys(const json::object& object, std::initializer_list<std::string_view> keys) {
  return std::ranges::equal(object, keys, {},
                            [](const auto& item) { return std::string_view(item.key()); });
}

// Returns arguments that are JSON in a string, or otherwise the value as it is.
Json arguments_of(const json::value& value) {
  return value.is_string() ? read_arguments(view(value.get_string())) : owned_json(value);
}

// Reads {"id": …, "type": "function", "function": {"name": …, "arguments": …}} in exactly this
// order: tool calls of another form reach the template unchanged.
std::optional<ToolCall> read_tool_call(const json::value& value) {
  const json::object* call = value.if_object();
  if (!call || !has_keys(*call, {"id", "type", "function"})) return std::nullopt;
  const json::object* function = call->at("function").if_object();
  if (!call->at("id").is_string() || text_at(*call, "type") != "function" || !function ||
      !has_keys(*function, {"name", "arguments"}) || !function->at("name").is_string()) {
    return std::nullopt;
  }
  return ToolCall{.id = std::string(text_at(*call, "id")),
                  .name = std::string(text_at(*function, "name")),
                  .arguments = arguments_of(function->at("arguments"))};
}

// Reads tool calls of another form.
Json read_other_calls(const json::value& calls) {
  Json out = owned_json(calls);
  auto* list = std::get_if<Json::List>(&out.value);
  for (size_t i = 0; list && i < list->size(); ++i) {
    auto* call = std::get_if<Json::Fields>(&(*list)[i].value);
    if (!call) continue;
    const json::value* function = calls.at(i).get_object().if_contains("function");
    const json::object* object = function ? function->if_object() : nullptr;
    const json::value* arguments = object ? object->if_contains("arguments") : nullptr;
    if (!arguments) continue;
    auto& fields = std::get<Json::Fields>(
        std::ranges::find(*call, "function", &Json::Field::name)->data.value);
    std::ranges::find(fields, "arguments", &Json::Field::name)->data = arguments_of(*arguments);
  }
  return out;
}

// Reads {"name": …, "arguments": …} of a message: the older form of a single call.
void read_function_call(const json::value& value, Message& message) {
  const json::object* call = value.if_object();
  const json::value* arguments = call ? call->if_contains("arguments") : nullptr;
  if (!call || text_at(*call, "name").empty()) return;
  message.parts.emplace_back(
      ToolCall{.id = std::nullopt,
               .name = std::string(text_at(*call, "name")),
               .arguments = arguments ? arguments_of(*arguments) : Json{Json::Fields{}}});
}

void read_tool_calls(const json::value& calls, Message& message) {
  std::vector<MessagePart> parts;
  if (const json::array* list = calls.if_array()) {
    for (const json::value& value : *list) {
      if (auto call = read_tool_call(value)) parts.emplace_back(std::move(*call));
    }
    if (!list->empty() && parts.size() == list->size()) {
      std::ranges::move(parts, std::back_inserter(message.parts));
      return;
    }
  }
  message.further.push_back({"tool_calls", read_other_calls(calls)});
}

bool is_reasoning(const MessagePart& part) { return std::holds_alternative<ReasoningPart>(part); }

Result<Message> read_message(const json::value& value, CacheMarks& marks) {
  const json::object* object = value.if_object();
  if (!object) return wrong_type("messages", "an array of objects", value);
  const json::value* role = object->if_contains("role");
  if (!role || !role->is_string()) return refuse("messages", "a message has no role");
  Message message{.role = std::string(view(role->get_string())), .parts = {}};
  for (const auto& item : *object) {
    const std::string_view key = item.key();
    const std::string_view text = text_at(*object, key);
    const bool is_text = item.value().is_string();
    if (key == "role") continue;
    if (key == "content") {
      TRY(read_content(item.value(), marks, message));
    } else if (key == "tool_calls") {
      read_tool_calls(item.value(), message);
    } else if (key == "function_call") {
      read_function_call(item.value(), message);
    } else if ((key == "reasoning_content" || key == "reasoning") && is_text) {
      if (std::ranges::any_of(message.parts, is_reasoning))
        continue;  // the same under another name
      message.parts.push_back(ReasoningPart{std::string(text)});
    } else if (key == "tool_call_id" && is_text) {
      message.tool_call_id = text;
    } else if (key == "name" && is_text) {
      message.name = text;
    } else {
      message.further.push_back({std::string(key), owned_json(item.value())});
    }
  }
  return message;
}

// Checks that a function has a name: in "function", or next to "type" as some clients write it.
Result<void> check_function(const json::object& tool, size_t index) {
  const std::string_view type = text_at(tool, "type");
  if (!type.empty() && type != "function") return {};
  const json::value& function = at(tool, "function");
  const bool has_name =
      function.is_null() ? !text_at(tool, "name").empty()
                         : function.is_object() && !text_at(function.get_object(), "name").empty();
  if (has_name) return {};
  const bool has_function = function.is_object();
  return refuse("tools",
                fmt::format("tools[{}].function{} is missing", index, has_function ? ".name" : ""));
}

Result<void> read_tools(const JsonFields& fields, CacheMarks& marks, ChatRequest& chat) {
  TRY_ASSIGN(const json::array* array, fields.list("tools"));
  if (!array) return {};
  TRY(check_n_tools(array->size()));
  for (const json::value& tool : *array) {
    if (!tool.is_object()) return wrong_type("tools", "an array of objects", tool);
    TRY(check_function(tool.get_object(), chat.tools.size()));
    json::object shown = tool.get_object();
    shown.erase("cache_control");
    TRY(add_tool(tool.get_object(), owned_json(shown), marks, chat));
  }
  return {};
}

// Reads "functions" and "function_call", the predecessors of tools and tool_choice. If both are
// given, the newer ones apply.
Result<void> read_functions(const JsonFields& fields, CacheMarks& marks, ChatRequest& chat) {
  TRY_ASSIGN(const json::array* functions, fields.list("functions"));
  if (!functions || !chat.tools.empty()) return {};
  TRY(check_n_tools(functions->size()));
  for (const json::value& function : *functions) {
    if (!function.is_object()) return wrong_type("functions", "an array of objects", function);
    const json::object tool{{"type", "function"}, {"function", function}};
    TRY(add_tool(tool, owned_json(tool), marks, chat));
  }
  const json::value* wish = fields.find("function_call");
  if (!wish || fields.find("tool_choice")) return {};
  if (wish->is_string() && wish->get_string() == "auto") return {};
  if (wish->is_string() && wish->get_string() == "none") {
    chat.forbids_calls = true;
    return {};
  }
  const json::object* named = wish->if_object();
  const std::string_view name = named ? text_at(*named, "name") : "";
  if (name.empty()) {
    return refuse("function_call", "function_call must be \"auto\", \"none\" or name a function");
  }
  chat.forced = ForcedCalls{.names = {std::string(name)}, .is_one = true};
  return {};
}

// Reads the flag "logprobs" and "top_logprobs".
Result<std::optional<uint32_t>> read_chat_logprobs(const JsonFields& fields) {
  TRY_ASSIGN(const auto logprobs, fields.flag("logprobs"));
  TRY_ASSIGN(const auto n_top, fields.count<uint32_t>("top_logprobs"));
  if (n_top && *n_top > 0 && !logprobs.value_or(false)) {
    return refuse("top_logprobs", "top_logprobs needs logprobs to be true");
  }
  if (n_top && *n_top > RequestBounds::kLogprobs) {
    return refuse("top_logprobs", fmt::format("top_logprobs is {}, at most {} are given", *n_top,
                                              RequestBounds::kLogprobs));
  }
  if (!logprobs.value_or(false)) return std::optional<uint32_t>();
  return std::optional<uint32_t>(n_top.value_or(0));
}

}  // namespace

Result<ChatRequest> read_chat_request(const JsonFields& fields) {
  ChatRequest chat;
  CacheMarks marks;
  TRY_ASSIGN(const json::array* messages, fields.list("messages"));
  TRY(check_n_messages(messages ? messages->size() : 0));
  for (const json::value& value : *messages) {
    TRY_ASSIGN(Message message, read_message(value, marks));
    chat.messages.push_back(std::move(message));
  }
  TRY(read_tools(fields, marks, chat));
  TRY(read_tool_choice(fields, chat));
  TRY(read_functions(fields, marks, chat));
  TRY_ASSIGN(const auto continues, fields.flag("continue_final_message"));
  chat.continue_final_message = continues.value_or(false);
  TRY_ASSIGN(const auto adds_prompt, fields.flag("add_generation_prompt"));
  chat.add_generation_prompt = adds_prompt.value_or(!chat.continue_final_message);
  TRY(read_thinking(fields, chat));
  TRY(read_template_options(fields, chat));
  return chat;
}

Result<CompletionCall> parse_chat_call(const ServiceApi& service, const RequestBody& body) {
  TRY_ASSIGN(const JsonFields fields, body.fields());
  if (fields.find("suffix")) return unsupported("suffix");  // would otherwise be silently ignored
  TRY_ASSIGN(auto max_tokens, read_max_tokens(fields, "max_completion_tokens"));
  TRY_ASSIGN(const auto n_logprobs, read_chat_logprobs(fields));
  TRY_ASSIGN(const ChatRequest chat, read_chat_request(fields));
  TRY_ASSIGN(CompletionCall call, read_call(fields));
  TRY(read_answer_format(fields, body.text, call));
  TRY(read_choices(fields, call));
  TRY(read_parallel_calls(fields, call));
  if (fields.find("functions") && !fields.find("tools")) {
    call.names_function_call = call.holds_calls = true;  // clients join the names of two calls
    // the number of calls that such an answer can contain
    call.requests.front().output.max_calls = 1;
  }
  if (!max_tokens) {
    TRY_ASSIGN(max_tokens, read_max_tokens(fields, "max_tokens"));
  }
  call.requests.front().max_tokens = max_tokens;
  call.requests.front().engine.n_logprobs = n_logprobs;
  return with_prompt(service, chat, body.client, std::move(call));
}

}  // namespace kvik
