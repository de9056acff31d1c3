#include "server/dialects/responses/responses_request.h"

#include <boost/json/array.hpp>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/chat_fields.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

Result<void> add_item(const json::value& value, CacheMarks& marks, ChatRequest& chat) {
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
  const TextWords words{.param = "input",
                        .expected = "content as a string or parts",
                        .made_of = "content made of parts",
                        .types = {"input_text", "output_text"}};
  TRY_ASSIGN(std::vector<MessagePart> parts, read_texts(*content, words, marks));
  if (parts.empty()) parts.push_back(TextPart{});
  chat.messages.push_back(
      {.role = std::string(role == "developer" ? "system" : role), .parts = std::move(parts)});
  return {};
}

Result<ChatRequest> read_conversation(const JsonFields& fields) {
  ChatRequest chat;
  TRY_ASSIGN(auto instructions, fields.string("instructions"));
  if (instructions) chat.messages.push_back(text_message("system", std::move(*instructions)));
  const json::value* input = fields.find("input");
  if (!input) return refuse("input", "input is missing");
  if (input->is_string()) {
    chat.messages.push_back(text_message("user", std::string(view(input->get_string()))));
  } else if (input->is_array()) {
    const size_t n_before = chat.messages.size();
    CacheMarks marks;
    for (const json::value& item : input->get_array()) TRY(add_item(item, marks, chat));
    if (chat.messages.size() == n_before) return refuse("input", "input holds no message");
  } else {
    return wrong_type("input", "a string or an array of items", *input);
  }
  TRY(check_n_messages(chat.messages.size()));
  TRY(read_tool_choice(fields, chat));
  TRY(read_template_options(fields, chat));
  return chat;
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
  return {{"instructions", value_or(fields, "instructions", nullptr)},
          {"max_output_tokens", value_or(fields, "max_output_tokens", nullptr)},
          {"metadata", value_or(fields, "metadata", json::object())},
          {"parallel_tool_calls", value_or(fields, "parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"store", false},
          {"temperature", value_or(fields, "temperature", 1.0)},
          {"text", {{"format", {{"type", "text"}}}}},
          {"tool_choice", value_or(fields, "tool_choice", "auto")},
          {"tools", json::array()},
          {"top_p", value_or(fields, "top_p", 1.0)},
          {"truncation", "disabled"},
          {"user", value_or(fields, "user", nullptr)}};
}

}  // namespace

Result<ResponsesCall> parse_responses_call(const ServiceApi& service, std::string_view body) {
  TRY_ASSIGN(const json::object object, parse_json_object(body));
  const JsonFields fields(object);
  TRY(refuse_unsupported(fields));
  TRY(fields.boolean("store"));
  TRY(fields.object("metadata"));
  TRY_ASSIGN(const auto max_tokens, fields.count<uint64_t>("max_output_tokens"));
  TRY_ASSIGN(const ChatRequest chat, read_conversation(fields));
  TRY_ASSIGN(CompletionCall call, read_call(fields));
  CompletionRequest& request = call.requests.front();
  request.max_tokens = max_tokens;
  TRY(read_user(fields, "user", request));
  TRY_ASSIGN(call, with_prompt(service, chat, std::move(call)));
  return ResponsesCall{.call = std::move(call), .echo = echo_of(fields)};
}

}  // namespace kvik
