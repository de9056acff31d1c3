#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/message.h"

namespace kvik {

// What was said in a chat, a text each time. A system prompt is its first message.
class Conversation {
 public:
  Conversation() = default;
  explicit Conversation(std::vector<Message> messages) : messages_(std::move(messages)) {}

  const std::vector<Message>& messages() const { return messages_; }
  bool ends_with(std::string_view role) const {
    return !messages_.empty() && messages_.back().role == role;
  }
  // Messages beside the system prompt.
  size_t n_turns() const;

  std::string_view system() const;      // empty where there is none
  void set_system(std::string system);  // empty: none

  void add(std::string_view role, std::string content);
  Message take_back();  // the last one
  void clear();         // all but the system prompt

 private:
  std::vector<Message> messages_;
};

}  // namespace kvik
