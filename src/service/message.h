#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/json/json.h"

namespace kvik {

struct TextPart {
  std::string text;
  // Requested lifetime of the cached prefix that ends with this text.
  std::optional<Duration> pin_ttl = {};

  friend bool operator==(const TextPart&, const TextPart&) = default;
};

// Reasoning content of an assistant message.
struct ReasoningPart {
  std::string text;

  friend bool operator==(const ReasoningPart&, const ReasoningPart&) = default;
};

struct ToolCall {
  std::optional<std::string> id;
  std::string name;
  Json arguments;  // an object of named arguments; a string if they were not valid JSON

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

using MessagePart = std::variant<TextPart, ReasoningPart, ToolCall>;

// One message of a conversation. The template receives all text parts as one string, joined by line
// breaks; a message without a TextPart has no content. The result of a tool is the text of a
// message with the role "tool".
struct Message {
  // "system", "user", "assistant", "tool", or another role that the template supports
  std::string role;
  std::vector<MessagePart> parts;
  std::optional<std::string> tool_call_id = {};  // id of the call that this message answers
  std::optional<std::string> name = {};          // name of the author
  // fields unknown to Kvik, passed through to the template
  Json::Fields further = {};

  friend bool operator==(const Message&, const Message&) = default;
};

// Returns a message with a single text part.
inline Message text_message(std::string role, std::string text) {
  return {.role = std::move(role), .parts = {TextPart{std::move(text)}}};
}

// Returns all text parts of a message, joined by line breaks.
std::string text_of(const Message& message);

std::vector<ToolCall> calls_of(const Message& message);

}  // namespace kvik
