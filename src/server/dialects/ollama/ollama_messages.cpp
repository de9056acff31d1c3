#include "server/dialects/ollama/ollama_messages.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "server/dialects/chat_fields.h"
#include "server/dialects/ollama/ollama_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Reads {"function": {"name": …, "arguments": {…}}}; an "id" may be next to the function.
Result<ToolCall> read_call_of_message(const json::value& value) {
  if (!value.is_object()) return wrong_type("tool_calls", "an array of objects", value);
  const JsonFields fields(value.get_object(), "tool_calls");
  TRY_ASSIGN(const auto function, fields.object("function"));
  if (!function) return refuse("tool_calls", "tool_calls.function is missing");
  ToolCall call;
  TRY_ASSIGN(call.id, fields.text("id"));
  if (call.id && call.id->empty()) call.id.reset();
  TRY_ASSIGN(const auto name, function->text("name"));
  if (!name || name->empty()) return refuse("tool_calls", "tool_calls.function.name is missing");
  call.name = *name;
  TRY_ASSIGN(const auto arguments, function->object("arguments"));
  call.arguments = arguments ? owned_json(arguments->all()) : Json{Json::Fields{}};
  return call;
}

Result<void> read_calls_of_message(const JsonFields& fields, Message& message) {
  TRY_ASSIGN(const json::array* calls, fields.list("tool_calls"));
  if (!calls) return {};
  for (const json::value& value : *calls) {
    TRY_ASSIGN(ToolCall call, read_call_of_message(value));
    message.parts.emplace_back(std::move(call));
  }
  return {};
}

Result<Message> read_one_message(const json::value& value) {
  if (!value.is_object()) return wrong_type("messages", "an array of objects", value);
  const JsonFields fields(value.get_object(), "messages");
  Message message;
  TRY_ASSIGN(const auto role, fields.text("role"));
  if (!role || role->empty()) return refuse("messages", "a message has no role");
  message.role = *role;
  TRY(check_no_images(fields));
  TRY_ASSIGN(auto thinking, fields.text("thinking"));
  if (thinking && !thinking->empty()) message.parts.emplace_back(ReasoningPart{*thinking});
  TRY_ASSIGN(auto content, fields.text("content"));
  TRY_ASSIGN(const json::array* calls, fields.list("tool_calls"));
  // A message that only calls has no text: some templates render an empty one.
  const bool only_calls = calls && !calls->empty() && (!content || content->empty());
  if (!only_calls) message.parts.emplace_back(TextPart{std::move(content).value_or("")});
  TRY(read_calls_of_message(fields, message));
  TRY_ASSIGN(message.tool_call_id, fields.text("tool_call_id"));
  TRY_ASSIGN(message.name, fields.text("tool_name"));
  if (!message.name) {
    TRY_ASSIGN(message.name, fields.text("name"));
  }
  return message;
}

Result<void> read_ollama_tools(const JsonFields& fields, ChatRequest& chat) {
  TRY_ASSIGN(const json::array* tools, fields.list("tools"));
  if (!tools) return {};
  TRY(check_n_tools(tools->size()));
  CacheMarks no_marks;
  for (const json::value& tool : *tools) {
    if (!tool.is_object()) return wrong_type("tools", "an array of objects", tool);
    const JsonFields inner(tool.get_object(), "tools");
    TRY_ASSIGN(const auto function, inner.object("function"));
    if (!function || text_at(function->all(), "name").empty()) {
      return refuse("tools", fmt::format("tools[{}].function{} is missing", chat.tools.size(),
                                         function ? ".name" : ""));
    }
    TRY(add_tool(tool.get_object(), owned_json(tool), no_marks, chat));
  }
  return {};
}

}  // namespace

Result<ChatRequest> read_ollama_chat(const JsonFields& fields) {
  ChatRequest chat;
  TRY_ASSIGN(const json::array* messages, fields.list("messages"));
  TRY(check_n_messages(messages ? messages->size() : 0));
  for (const json::value& value : *messages) {
    TRY_ASSIGN(Message message, read_one_message(value));
    chat.messages.push_back(std::move(message));
  }
  TRY(read_ollama_tools(fields, chat));
  TRY_ASSIGN(chat.thinking, read_think(fields));
  TRY(read_template_options(fields, chat));
  chat.continue_final_message = chat.messages.back().role == "assistant";
  chat.add_generation_prompt = !chat.continue_final_message;
  return chat;
}

}  // namespace kvik
