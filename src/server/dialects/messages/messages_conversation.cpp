#include "server/dialects/messages/messages_conversation.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <utility>

#include "server/dialects/json_fields.h"
#include "server/dialects/reasoning_seal.h"
#include "server/http/http_message.h"

namespace kvik {
namespace {

namespace json = boost::json;

std::optional<std::string> string_at(const json::object& object, std::string_view name) {
  const json::string* text = at(object, name).if_string();
  return text ? std::optional<std::string>(view(*text)) : std::nullopt;
}

bool is_reasoning(const MessagePart& part) { return std::holds_alternative<ReasoningPart>(part); }

// Assembles the conversation message by message. Blocks are added to the newest message while the
// role stays the same.
class Conversation {
 public:
  Conversation(std::string_view model, CacheMarks& marks) : model_(model), marks_(marks) {}

  std::vector<Message> take() && { return std::move(messages_); }

  Result<void> add_system(const json::value& system) {
    TRY_ASSIGN(std::vector<MessagePart> parts, texts_of(system, "system"));
    for (MessagePart& part : parts) {
      auto& text = std::get<TextPart>(part).text;
      text = without_billing_header(text);
    }
    std::erase_if(parts, [](const MessagePart& part) {
      const TextPart& text = std::get<TextPart>(part);
      return text.text.empty() && !text.pin_ttl;
    });
    if (!parts.empty()) messages_.push_back({.role = "system", .parts = std::move(parts)});
    return {};
  }

  Result<void> add(const json::value& value) {
    if (!value.is_object()) return wrong_type("messages", "an array of objects", value);
    const json::object& message = value.get_object();
    const std::string_view role = text_at(message, "role");
    const json::value& content = at(message, "content");
    if (role == "system") return add_system(content);
    if (role != "user" && role != "assistant") {
      return refuse("messages",
                    "the role of a message must be \"user\", \"assistant\" or \"system\"");
    }
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
  // Returns no parts if there is no content.
  Result<std::vector<MessagePart>> texts_of(const json::value& content, std::string_view param) {
    if (content.is_null()) return std::vector<MessagePart>();
    const TextWords words{.param = param,
                          .expected = "a string or an array of blocks",
                          .made_of = "made of blocks",
                          .refusal = "a block of content is not text; only text is supported"};
    return read_texts(content, words, marks_);
  }

  // With an empty text, because such a message has content whatever its blocks are.
  Message& newest(std::string_view role) {
    if (messages_.empty() || messages_.back().role != role)
      messages_.push_back(text_message(std::string(role), ""));
    return messages_.back();
  }

  Result<void> add_block(std::string_view role, const json::object& block) {
    const std::string_view type = text_at(block, "type");
    const bool is_assistants = role == "assistant";
    if (type == "text" && at(block, "text").is_string()) {
      TRY_ASSIGN(const auto pin_ttl, marks_.read(block));
      newest(role).parts.push_back(TextPart{std::string(text_at(block, "text")), pin_ttl});
      return {};
    }
    if (type == "document" && !is_assistants) return add_document(role, block);
    if (type == "tool_use" && is_assistants) return add_tool_use(block);
    if (type == "tool_result" && !is_assistants) return add_tool_result(block);
    if (type == "thinking" && is_assistants) {
      add_reasoning(block);
      return {};
    }
    if (type == "redacted_thinking" && is_assistants) return {};
    TRY(check_medium(type, "messages"));
    return fail(ErrorCode::kUnsupported,
                fmt::format("a block of content is of the type '{}', expected text, thinking, or "
                            "those of tools",
                            printable(type)),
                "messages");
  }

  Result<void> add_document(std::string_view role, const json::object& block) {
    const json::value& source = at(block, "source");
    const bool is_text = source.is_object() && text_at(source.get_object(), "type") == "text";
    if (!is_text) {
      return fail(ErrorCode::kUnsupported, "a document is not text; only text is supported",
                  "messages");
    }
    TRY_ASSIGN(const auto pin_ttl, marks_.read(block));
    newest(role).parts.push_back(
        TextPart{std::string(text_at(source.get_object(), "data")), pin_ttl});
    return {};
  }

  // Reasoning without a signature is accepted. Of several reasoning blocks before the text, the
  // last one is used.
  void add_reasoning(const json::object& block) {
    const std::string_view reasoning = text_at(block, "thinking");
    const std::string_view signature = text_at(block, "signature");
    Message& message = newest("assistant");
    if (!signature.empty() && signature != reasoning_signature(model_, reasoning)) return;
    std::erase_if(message.parts, is_reasoning);
    message.parts.push_back(ReasoningPart{std::string(reasoning)});
  }

  Result<void> add_tool_use(const json::object& block) {
    auto name = string_at(block, "name");
    if (!name) return refuse("messages", "a tool_use block has no name");
    newest("assistant")
        .parts.push_back(ToolCall{.id = string_at(block, "id"),
                                  .name = std::move(*name),
                                  .arguments = owned_json(at(block, "input"))});
    return {};
  }

  // One message per result, because templates identify results by their role. The block's own mark
  // counts as that of its last part.
  Result<void> add_tool_result(const json::object& block) {
    TRY_ASSIGN(std::vector<MessagePart> parts, texts_of(at(block, "content"), "messages"));
    Message message = text_message("tool", "");
    if (!parts.empty()) {
      TRY_ASSIGN(const auto pin_ttl, marks_.read(block));
      if (pin_ttl) std::get<TextPart>(parts.back()).pin_ttl = pin_ttl;
      message.parts = std::move(parts);
    }
    const json::value& is_error = at(block, "is_error");
    if (is_error.is_bool() && is_error.get_bool()) say_error(message);
    message.tool_call_id = string_at(block, "tool_use_id");
    messages_.push_back(std::move(message));
    return {};
  }

  // Templates cannot express that a tool failed, so the result states it.
  static void say_error(Message& message) {
    std::string& text = std::get<TextPart>(message.parts.front()).text;
    std::string begin = text.substr(0, 64);
    std::ranges::transform(begin, begin.begin(), [](unsigned char c) { return std::tolower(c); });
    if (!begin.contains("error")) text.insert(0, "Error: ");
  }

  std::string_view model_;
  CacheMarks& marks_;
  std::vector<Message> messages_;
};

}  // namespace

std::string without_billing_header(std::string_view text) {
  constexpr std::string_view kHeader = "x-anthropic-billing-header:";
  std::string kept;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    if (!line.starts_with(kHeader)) kept += line;
    text.remove_prefix(end);
  }
  return kept;
}

Result<std::vector<Message>> read_anthropic_messages(const JsonFields& fields,
                                                     std::string_view model, CacheMarks& marks) {
  TRY_ASSIGN(const json::array* given, fields.list("messages"));
  TRY(check_n_messages(given ? given->size() : 0));
  Conversation conversation(model, marks);
  TRY(conversation.add_system(at(fields.all(), "system")));
  for (const json::value& message : *given) TRY(conversation.add(message));
  std::vector<Message> messages = std::move(conversation).take();
  TRY(check_n_messages(messages.size()));
  return messages;
}

}  // namespace kvik
