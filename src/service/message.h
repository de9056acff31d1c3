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
  // A mark: the prefix up to the end of these words is worth keeping for so long.
  std::optional<Duration> keep_for = {};

  friend bool operator==(const TextPart&, const TextPart&) = default;
};

// What a model thought before it spoke.
struct Thought {
  std::string text;

  friend bool operator==(const Thought&, const Thought&) = default;
};

struct ToolCall {
  std::optional<std::string> id;
  std::string name;
  Json arguments;  // named ones; a text where they were no JSON

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

using MessagePart = std::variant<TextPart, Thought, ToolCall>;

// One message of a conversation. A template is given the texts as one, lines between them; without
// a TextPart the message has no content. What a tool answered is the text of a message of the role
// "tool".
struct Message {
  // Who wrote it: "system", "user", "assistant", "tool", or what a template knows.
  std::string role;
  std::vector<MessagePart> parts;
  std::optional<std::string> tool_call_id = {};  // of the call that this answers
  std::optional<std::string> name = {};          // of who wrote it
  Json::Fields further = {};                     // that Kvik knows no meaning of; a template may

  friend bool operator==(const Message&, const Message&) = default;
};

// A message that is one text.
inline Message text_message(std::string role, std::string text) {
  return {.role = std::move(role), .parts = {TextPart{std::move(text)}}};
}

// The texts of a message as one.
std::string text_of(const Message& message);

std::vector<ToolCall> calls_of(const Message& message);

}  // namespace kvik
