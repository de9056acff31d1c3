#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "service/chat.h"

namespace kvik {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;

  bool operator==(const ChatMessage&) const = default;
};

// What was said in a chat. A system prompt is its first message.
class Conversation {
 public:
  Conversation() = default;
  explicit Conversation(std::vector<ChatMessage> messages) : messages_(std::move(messages)) {}

  const std::vector<ChatMessage>& messages() const { return messages_; }
  bool ends_with(std::string_view role) const {
    return !messages_.empty() && messages_.back().role == role;
  }
  // Messages beside the system prompt.
  size_t n_turns() const;

  std::string_view system() const;      // empty where there is none
  void set_system(std::string system);  // empty: none

  void add(std::string_view role, std::string content);
  ChatMessage take_back();  // the last one
  void clear();             // all but the system prompt

  // For the model's template. Every word is somebody's, none the template's.
  jinja::Value to_template() const;

 private:
  std::vector<ChatMessage> messages_;
};

}  // namespace kvik
