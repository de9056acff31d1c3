#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/message.h"

namespace kvik {

// The messages of a chat, each a single text. The system prompt is the first message.
class Conversation {
 public:
  Conversation() = default;
  explicit Conversation(std::vector<Message> messages) : messages_(std::move(messages)) {}

  const std::vector<Message>& messages() const { return messages_; }
  bool ends_with(std::string_view role) const {
    return !messages_.empty() && messages_.back().role == role;
  }
  // Returns the number of messages, not counting the system prompt.
  size_t n_turns() const;

  std::string_view system() const;      // empty if there is none
  void set_system(std::string system);  // an empty text removes it

  void add(std::string_view role, std::string content);
  Message pop_last();  // removes and returns the last message
  void clear();        // keeps the system prompt

 private:
  std::vector<Message> messages_;
};

}  // namespace kvik
