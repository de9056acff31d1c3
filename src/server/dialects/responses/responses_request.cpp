#include "server/dialects/responses/responses_request.h"

#include <array>
#include <boost/json/array.hpp>
#include <string_view>
#include <utility>

#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

std::unexpected<Error> refuse(std::string_view param, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::string(param));
}

std::unexpected<Error> unsupported(std::string_view param) {
  return fail(ErrorCode::kUnsupported, std::string(param) + " is not supported",
              std::string(param));
}

json::string_view key_view(std::string_view text) { return {text.data(), text.size()}; }

std::string_view text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(key_view(name));
  if (!value || !value->is_string()) return {};
  return {value->get_string().data(), value->get_string().size()};
}

// Input and output texts alike become parts of a chat.
Result<json::value> chat_content(const json::value& content) {
  if (content.is_string()) return content;
  if (!content.is_array()) return wrong_type("input", "content as a string or parts", content);
  json::array parts;
  for (const json::value& value : content.get_array()) {
    if (!value.is_object()) return wrong_type("input", "content made of parts", value);
    const json::object& part = value.get_object();
    const std::string_view type = text_at(part, "type");
    const json::value* text = part.if_contains("text");
    if ((type != "input_text" && type != "output_text") || !text || !text->is_string())
      return refuse("input", "a part of a message's content is no text, expected only text");
    json::object out;
    out["type"] = "text";
    out["text"] = *text;
    if (const json::value* mark = part.if_contains("cache_control")) out["cache_control"] = *mark;
    parts.emplace_back(std::move(out));
  }
  return json::value(std::move(parts));
}

Result<void> add_item(const json::value& value, json::array& messages) {
  if (!value.is_object()) return wrong_type("input", "made of items", value);
  const json::object& item = value.get_object();
  const json::value* type = item.if_contains("type");
  if (text_at(item, "type") == "reasoning") return {};
  if (type && text_at(item, "type") != "message")
    return fail(ErrorCode::kUnsupported, "an item of input is no message, expected only messages",
                "input");
  const std::string_view role = text_at(item, "role");
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    return refuse("input",
                  "the role of a message must be \"user\", \"assistant\", \"system\" or "
                  "\"developer\"");
  const json::value* content = item.if_contains("content");
  if (!content) return refuse("input", "a message has no content");
  json::object message;
  message["role"] = role == "developer" ? "system" : json::string(role.data(), role.size());
  TRY_ASSIGN(message["content"], chat_content(*content));
  messages.emplace_back(std::move(message));
  return {};
}

json::object message_of(const char* role, std::string_view text) {
  json::object message;
  message["role"] = role;
  message["content"] = json::string(text.data(), text.size());
  return message;
}

Result<json::array> chat_messages(const JsonFields& fields) {
  json::array messages;
  TRY_ASSIGN(const auto instructions, fields.string("instructions"));
  if (instructions) messages.emplace_back(message_of("system", *instructions));
  const json::value* input = fields.find("input");
  if (!input) return refuse("input", "input is missing");
  if (input->is_string()) {
    messages.emplace_back(
        message_of("user", {input->get_string().data(), input->get_string().size()}));
    return messages;
  }
  if (!input->is_array()) return wrong_type("input", "a string or an array of items", *input);
  const size_t n_before = messages.size();
  for (const json::value& item : input->get_array()) TRY(add_item(item, messages));
  if (messages.size() == n_before) return refuse("input", "input holds no message");
  return messages;
}

// What changes the answer, or where it is kept, and can not be had.
Result<void> refuse_unsupported(const JsonFields& fields) {
  for (const std::string_view name : {"previous_response_id", "conversation", "prompt"})
    if (fields.find(name)) return unsupported(name);
  TRY_ASSIGN(const auto background, fields.boolean("background"));
  if (background.value_or(false)) return unsupported("background");
  TRY_ASSIGN(const auto tools, fields.array("tools"));
  if (tools && !(*tools)->empty()) return unsupported("tools");
  TRY_ASSIGN(const auto n_top, fields.count<uint32_t>("top_logprobs"));
  if (n_top.value_or(0) > 0) return unsupported("top_logprobs");
  TRY_ASSIGN(const auto text, fields.object("text"));
  if (!text) return {};
  TRY_ASSIGN(const auto format, JsonFields(**text, "text").object("format"));
  if (format && text_at(**format, "type") != "text") return unsupported("text.format");
  return {};
}

json::value value_or(const JsonFields& fields, std::string_view name, json::value otherwise) {
  const json::value* value = fields.find(name);
  return value ? *value : std::move(otherwise);
}

json::object echo_of(const JsonFields& fields) {
  json::object plain;
  plain["format"] = {{"type", "text"}};
  json::object echo;
  echo["instructions"] = value_or(fields, "instructions", nullptr);
  echo["max_output_tokens"] = value_or(fields, "max_output_tokens", nullptr);
  echo["metadata"] = value_or(fields, "metadata", json::object());
  echo["parallel_tool_calls"] = value_or(fields, "parallel_tool_calls", true);
  echo["previous_response_id"] = nullptr;
  echo["store"] = false;
  echo["temperature"] = value_or(fields, "temperature", 1.0);
  echo["text"] = std::move(plain);
  echo["tool_choice"] = value_or(fields, "tool_choice", "auto");
  echo["tools"] = json::array();
  echo["top_p"] = value_or(fields, "top_p", 1.0);
  echo["truncation"] = "disabled";
  echo["user"] = value_or(fields, "user", nullptr);
  return echo;
}

}  // namespace

Result<ResponsesBody> read_responses_body(json::object body) {
  const JsonFields fields(body);
  TRY(refuse_unsupported(fields));
  TRY(fields.boolean("store"));
  TRY(fields.object("metadata"));
  TRY_ASSIGN(const auto max_tokens, fields.count<uint64_t>("max_output_tokens"));
  TRY_ASSIGN(json::array messages, chat_messages(fields));
  ResponsesBody out{.chat = {}, .echo = echo_of(fields)};
  // Fields of chats that this dialect does not have are unknown ones: ignored.
  for (const std::string_view name : std::to_array<std::string_view>(
           {"n", "best_of", "stop", "logprobs", "prompt_logprobs", "echo", "max_tokens",
            "response_format", "continue_final_message", "add_generation_prompt", "stream_options",
            "tools"}))
    body.erase(key_view(name));
  body["messages"] = std::move(messages);
  if (max_tokens) body["max_tokens"] = *max_tokens;
  out.chat = std::move(body);
  return out;
}

}  // namespace kvik
