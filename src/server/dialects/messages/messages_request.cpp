#include "server/dialects/messages/messages_request.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>

#include "server/dialects/cache_fields.h"
#include "server/dialects/chat_fields.h"
#include "server/dialects/json_fields.h"

namespace kvik {
namespace {

namespace json = boost::json;

// Null where there is none.
const json::value& at(const json::object& object, std::string_view name) {
  static const json::value null;
  const json::value* value = object.if_contains(name);
  return value ? *value : null;
}

bool is_absent(const json::object& object, std::string_view name) {
  return at(object, name).is_null();
}

std::optional<std::string> string_at(const json::object& object, std::string_view name) {
  const json::string* text = at(object, name).if_string();
  return text ? std::optional<std::string>(view(*text)) : std::nullopt;
}

// Puts the conversation together, message by message. Blocks go to the newest message, as long as
// the role stays the same.
class Conversation {
 public:
  explicit Conversation(CacheMarks& marks) : marks_(marks) {}

  std::vector<Message> take() && { return std::move(messages_); }

  Result<void> add_system(const json::value& system) {
    TRY_ASSIGN(std::vector<MessagePart> parts, texts_of(system, "system"));
    if (!parts.empty()) messages_.push_back({.role = "system", .parts = std::move(parts)});
    return {};
  }

  Result<void> add(const json::value& value) {
    if (!value.is_object()) return wrong_type("messages", "an array of objects", value);
    const json::object& message = value.get_object();
    const std::string_view role = text_at(message, "role");
    if (role != "user" && role != "assistant")
      return refuse("messages", "the role of a message must be \"user\" or \"assistant\"");
    const json::value& content = at(message, "content");
    if (content.is_string()) {
      newest(role).parts.push_back(TextPart{std::string(view(content.get_string()))});
      return {};
    }
    if (!content.is_array())
      return wrong_type("messages", "content as a string or blocks", content);
    for (const json::value& block : content.get_array()) {
      if (!block.is_object()) return wrong_type("messages", "content made of blocks", block);
      TRY(add_block(role, block.get_object()));
    }
    return {};
  }

 private:
  // None where there is no content.
  Result<std::vector<MessagePart>> texts_of(const json::value& content, std::string_view param) {
    if (content.is_null()) return std::vector<MessagePart>();
    const TextWords words{.param = param,
                          .expected = "a string or an array of blocks",
                          .made_of = "made of blocks",
                          .refusal = "a block of content is no text, expected only text"};
    return read_texts(content, words, marks_);
  }

  // The empty text: such a message has content, whatever its blocks are.
  Message& newest(std::string_view role) {
    if (messages_.empty() || messages_.back().role != role)
      messages_.push_back(text_message(std::string(role), ""));
    return messages_.back();
  }

  Result<void> add_block(std::string_view role, const json::object& block) {
    const std::string_view type = text_at(block, "type");
    const bool is_assistants = role == "assistant";
    if (type == "text" && at(block, "text").is_string()) {
      TRY_ASSIGN(const auto keep_for, marks_.read(block));
      newest(role).parts.push_back(TextPart{std::string(text_at(block, "text")), keep_for});
      return {};
    }
    if (type == "tool_use" && is_assistants) return add_tool_use(block);
    if (type == "tool_result" && !is_assistants) return add_tool_result(block);
    if (type == "thinking" && is_assistants) {
      std::vector<MessagePart>& parts = newest(role).parts;  // of several, the last counts
      std::erase_if(parts, [](const auto& part) { return std::holds_alternative<Thought>(part); });
      parts.push_back(Thought{std::string(text_at(block, "thinking"))});
      return {};
    }
    if (type == "redacted_thinking" && is_assistants) return {};
    return fail(ErrorCode::kUnsupported, "a block of content is neither text nor of a tool",
                "messages");
  }

  Result<void> add_tool_use(const json::object& block) {
    auto name = string_at(block, "name");
    if (!name) return refuse("messages", "a tool_use block has no name");
    newest("assistant")
        .parts.push_back(ToolCall{.id = string_at(block, "id"),
                                  .name = std::move(*name),
                                  .arguments = to_data(at(block, "input"))});
    return {};
  }

  // A message for each result: templates know them by their role. The block's own mark stands for
  // that of its last part.
  Result<void> add_tool_result(const json::object& block) {
    TRY_ASSIGN(std::vector<MessagePart> parts, texts_of(at(block, "content"), "messages"));
    Message message = text_message("tool", "");
    if (!parts.empty()) {
      TRY_ASSIGN(const auto keep_for, marks_.read(block));
      if (keep_for) std::get<TextPart>(parts.back()).keep_for = keep_for;
      message.parts = std::move(parts);
    }
    message.tool_call_id = string_at(block, "tool_use_id");
    messages_.push_back(std::move(message));
    return {};
  }

  CacheMarks& marks_;
  std::vector<Message> messages_;
};

Result<std::vector<Message>> read_messages(const json::object& body, CacheMarks& marks) {
  TRY_ASSIGN(const auto given, JsonFields(body).array("messages"));
  TRY(check_n_messages(given ? (*given)->size() : 0));
  Conversation conversation(marks);
  TRY(conversation.add_system(at(body, "system")));
  for (const json::value& message : **given) TRY(conversation.add(message));
  std::vector<Message> messages = std::move(conversation).take();
  TRY(check_n_messages(messages.size()));
  return messages;
}

// {"type": "function", "function": {"name": …, "description": …, "parameters": …}}
Data function_of(const json::object& tool) {
  Data::Fields function = {{"name", to_data(at(tool, "name"))}};
  if (!is_absent(tool, "description"))
    function.emplace_back("description", to_data(at(tool, "description")));
  function.emplace_back("parameters", to_data(at(tool, "input_schema")));
  return {Data::Fields{{"type", {"function"}}, {"function", {std::move(function)}}}};
}

Result<void> read_tools(const json::value& tools, CacheMarks& marks, ChatRequest& chat) {
  if (tools.is_null()) return {};
  if (!tools.is_array()) return wrong_type("tools", "an array of objects", tools);
  TRY(check_n_tools(tools.get_array().size()));
  for (const json::value& value : tools.get_array()) {
    if (!value.is_object()) return wrong_type("tools", "an array of objects", value);
    const json::object& tool = value.get_object();
    if (text_at(tool, "name").empty()) return refuse("tools", "a tool has no name");
    TRY(add_tool(tool, function_of(tool), marks, chat));
  }
  return {};
}

// False: the template is not to know of them.
Result<bool> shows_tools(const json::object& body) {
  TRY_ASSIGN(const auto choice, JsonFields(body).object("tool_choice"));
  if (!choice) return true;
  const std::string_view type = text_at(**choice, "type");
  if (type == "auto" || type == "none") return type == "auto";
  return fail(ErrorCode::kUnsupported, "a forced tool_choice is not supported", "tool_choice");
}

Result<ChatRequest> read_conversation(const json::object& body) {
  ChatRequest chat;
  CacheMarks marks;
  TRY_ASSIGN(const bool has_tools, shows_tools(body));
  TRY(read_tools(at(body, "tools"), marks, chat));
  if (!has_tools) chat.tools.clear();
  TRY_ASSIGN(chat.messages, read_messages(body, marks));
  TRY(read_template_options(JsonFields(body), chat));
  chat.continue_final_message = chat.messages.back().role == "assistant";
  chat.add_generation_prompt = !chat.continue_final_message;
  return chat;
}

}  // namespace

Result<CompletionCall> parse_messages_call(const ServiceApi& service, std::string_view body) {
  TRY_ASSIGN(const json::object object, parse_json_object(body));
  const JsonFields fields(object);
  for (const std::string_view name : {"output_format", "output_config"})
    if (fields.find(name)) return unsupported(name);
  TRY_ASSIGN(const auto stops, fields.array("stop_sequences"));
  TRY_ASSIGN(const ChatRequest chat, read_conversation(object));
  TRY_ASSIGN(CompletionCall call, read_call(fields));
  TRY(read_answer_format(fields, call));
  CompletionRequest& request = call.requests.front();
  TRY_ASSIGN(request.max_tokens, fields.count<uint64_t>("max_tokens"));
  if (stops) {
    TRY_ASSIGN(request.stop, read_stops(at(object, "stop_sequences")));
  }
  TRY_ASSIGN(const auto metadata, fields.object("metadata"));
  if (metadata) TRY(read_user(JsonFields(**metadata, "metadata"), "user_id", request));
  return with_prompt(service, chat, std::move(call));
}

}  // namespace kvik
