#include "server/dialects/messages/messages_request.h"

#include <fmt/format.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <string_view>
#include <utility>

#include "server/dialects/json_fields.h"
#include "service/request_bounds.h"

namespace kvik {
namespace {

namespace json = boost::json;

std::unexpected<Error> refuse(std::string_view param, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::string(param));
}

std::unexpected<Error> unsupported(std::string_view param, std::string message) {
  return fail(ErrorCode::kUnsupported, std::move(message), std::string(param));
}

json::value take(json::object& object, std::string_view name) {
  json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value ? std::move(*value) : json::value();
}

std::string_view text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  if (!value || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

// A part as chats have it, with the block's cache_control.
json::object text_part(json::object& block, json::value text) {
  json::object part;
  part["type"] = "text";
  part["text"] = std::move(text);
  if (json::value mark = take(block, "cache_control"); !mark.is_null())
    part["cache_control"] = std::move(mark);
  return part;
}

// Content that is a string or blocks of text, as parts.
Result<json::array> text_parts(json::value content, std::string_view param) {
  json::array parts;
  json::object none;
  if (content.is_null()) return parts;
  if (content.is_string()) {
    parts.emplace_back(text_part(none, std::move(content)));
    return parts;
  }
  if (!content.is_array()) return wrong_type(param, "a string or an array of blocks", content);
  for (json::value& value : content.get_array()) {
    if (!value.is_object()) return wrong_type(param, "made of blocks", value);
    json::object& block = value.get_object();
    json::value text = take(block, "text");
    if (text_at(block, "type") != "text" || !text.is_string())
      return refuse(param, "a block of content is no text, expected only text");
    parts.emplace_back(text_part(block, std::move(text)));
  }
  return parts;
}

json::object message_of(std::string_view role) {
  json::object message;
  message["role"] = json::string(role.data(), role.size());
  message["content"] = json::array();
  return message;
}

// Puts the conversation together, message by message. Blocks go to the newest message, as long as
// the role stays the same.
class Conversation {
 public:
  json::array take() && { return std::move(messages_); }

  Result<void> add_system(json::value system) {
    if (system.is_null()) return {};
    TRY_ASSIGN(json::array parts, text_parts(std::move(system), "system"));
    if (parts.empty()) return {};
    json::object message = message_of("system");
    message["content"] = std::move(parts);
    messages_.emplace_back(std::move(message));
    return {};
  }

  Result<void> add(json::value& value) {
    if (!value.is_object()) return wrong_type("messages", "an array of objects", value);
    json::object& message = value.get_object();
    const std::string_view role = text_at(message, "role");
    if (role != "user" && role != "assistant")
      return refuse("messages", "the role of a message must be \"user\" or \"assistant\"");
    json::value content = kvik::take(message, "content");
    if (!content.is_array() && !content.is_string())
      return wrong_type("messages", "content as a string or blocks", content);
    if (content.is_string()) {
      json::object none;
      parts(role).emplace_back(text_part(none, std::move(content)));
      return {};
    }
    for (json::value& block : content.get_array()) {
      if (!block.is_object()) return wrong_type("messages", "content made of blocks", block);
      TRY(add_block(role, block.get_object()));
    }
    return {};
  }

 private:
  json::object& newest(std::string_view role) {
    if (messages_.empty() || text_at(messages_.back().get_object(), "role") != role)
      messages_.emplace_back(message_of(role));
    return messages_.back().get_object();
  }
  json::array& parts(std::string_view role) { return newest(role)["content"].as_array(); }

  Result<void> add_block(std::string_view role, json::object& block) {
    const std::string_view type = text_at(block, "type");
    json::value text = kvik::take(block, "text");
    if (type == "text" && text.is_string()) {
      parts(role).emplace_back(text_part(block, std::move(text)));
      return {};
    }
    if (type == "tool_use" && role == "assistant") return add_tool_use(block);
    if (type == "tool_result" && role == "user") return add_tool_result(block);
    if (type == "thinking" && role == "assistant") {
      newest(role)["reasoning_content"] = kvik::take(block, "thinking");
      return {};
    }
    if (type == "redacted_thinking" && role == "assistant") return {};
    return unsupported("messages", "a block of content is neither text nor of a tool");
  }

  Result<void> add_tool_use(json::object& block) {
    json::object function;
    function["name"] = kvik::take(block, "name");
    function["arguments"] = kvik::take(block, "input");
    if (!function["name"].is_string()) return refuse("messages", "a tool_use block has no name");
    json::object call;
    call["id"] = kvik::take(block, "id");
    call["type"] = "function";
    call["function"] = std::move(function);
    json::value& calls = newest("assistant")["tool_calls"];
    if (calls.is_null()) calls = json::array();
    calls.get_array().emplace_back(std::move(call));
    return {};
  }

  // A message for each result: templates know them by their role.
  Result<void> add_tool_result(json::object& block) {
    TRY_ASSIGN(json::array result, text_parts(kvik::take(block, "content"), "messages"));
    if (json::value mark = kvik::take(block, "cache_control"); !mark.is_null() && !result.empty())
      result.back().get_object()["cache_control"] = std::move(mark);
    json::object message = message_of("tool");
    message["tool_call_id"] = kvik::take(block, "tool_use_id");
    message["content"] = std::move(result);
    messages_.emplace_back(std::move(message));
    return {};
  }

  json::array messages_;
};

Result<json::array> chat_messages(json::object& body) {
  TRY_ASSIGN(const auto given, JsonFields(body).array("messages"));
  if (!given || (*given)->empty()) return refuse("messages", "messages is missing or empty");
  if ((*given)->size() > RequestBounds::kMessages)
    return refuse("messages", fmt::format("messages holds {} messages, at most {} are allowed",
                                          (*given)->size(), RequestBounds::kMessages));
  Conversation conversation;
  TRY(conversation.add_system(take(body, "system")));
  for (json::value& message : body["messages"].get_array()) TRY(conversation.add(message));
  return std::move(conversation).take();
}

Result<json::value> chat_tools(json::value tools) {
  if (tools.is_null()) return tools;
  if (!tools.is_array()) return wrong_type("tools", "an array of objects", tools);
  json::array out;
  for (json::value& value : tools.get_array()) {
    if (!value.is_object()) return wrong_type("tools", "an array of objects", value);
    json::object& tool = value.get_object();
    if (text_at(tool, "name").empty()) return refuse("tools", "a tool has no name");
    json::object function;
    function["name"] = take(tool, "name");
    if (json::value text = take(tool, "description"); !text.is_null())
      function["description"] = std::move(text);
    function["parameters"] = take(tool, "input_schema");
    json::object entry;
    entry["type"] = "function";
    entry["function"] = std::move(function);
    if (json::value mark = take(tool, "cache_control"); !mark.is_null())
      entry["cache_control"] = std::move(mark);
    out.emplace_back(std::move(entry));
  }
  return json::value(std::move(out));
}

Result<void> rename_tool_choice(json::object& body) {
  TRY_ASSIGN(const auto choice, JsonFields(body).object("tool_choice"));
  if (!choice) return {};
  const std::string_view type = text_at(**choice, "type");
  if (type != "auto" && type != "none")
    return unsupported("tool_choice", "a forced tool_choice is not supported");
  body["tool_choice"] = type == "auto" ? "auto" : "none";
  return {};
}

Result<void> rename_user(json::object& body) {
  TRY_ASSIGN(const auto metadata, JsonFields(body).object("metadata"));
  if (!metadata) return {};
  TRY_ASSIGN(const auto user, JsonFields(**metadata, "metadata").string("user_id"));
  if (user) body["user"] = *user;
  return {};
}

bool ends_with_assistant(const json::array& messages) {
  return text_at(messages.back().get_object(), "role") == "assistant";
}

}  // namespace

Result<json::object> to_chat_body(json::object body) {
  // Fields of OpenAI's that this dialect does not have are unknown ones: ignored.
  for (const std::string_view name : std::to_array<std::string_view>(
           {"n", "best_of", "stop", "user", "logprobs", "prompt_logprobs", "top_logprobs", "echo",
            "max_completion_tokens", "continue_final_message", "add_generation_prompt"}))
    body.erase(json::string_view(name.data(), name.size()));
  for (const std::string_view name : {"output_format", "output_config"})
    if (JsonFields(body).find(name))
      return unsupported(name, std::string(name) + " is not supported");
  TRY_ASSIGN(const auto stops, JsonFields(body).array("stop_sequences"));
  if (stops) body["stop"] = take(body, "stop_sequences");
  TRY(rename_tool_choice(body));
  TRY(rename_user(body));
  TRY_ASSIGN(body["tools"], chat_tools(take(body, "tools")));
  TRY_ASSIGN(json::array messages, chat_messages(body));
  if (ends_with_assistant(messages)) body["continue_final_message"] = true;
  body["messages"] = std::move(messages);
  return body;
}

}  // namespace kvik
