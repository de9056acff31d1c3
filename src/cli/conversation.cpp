#include "cli/conversation.h"

#include <utility>

#include "base/check.h"

namespace kvik {
size_t Conversation::n_turns() const { return messages_.size() - (system().empty() ? 0 : 1); }

std::string_view Conversation::system() const {
  if (messages_.empty() || messages_.front().role != "system") return {};
  return std::get<TextPart>(messages_.front().parts.front()).text;
}

void Conversation::set_system(std::string system) {
  if (!messages_.empty() && messages_.front().role == "system") messages_.erase(messages_.begin());
  if (system.empty()) return;
  messages_.insert(messages_.begin(), text_message("system", std::move(system)));
}

void Conversation::add(std::string_view role, std::string content) {
  messages_.push_back(text_message(std::string(role), std::move(content)));
}

Message Conversation::pop_last() {
  CHECK(!messages_.empty());
  Message last = std::move(messages_.back());
  messages_.pop_back();
  return last;
}

void Conversation::clear() {
  const std::string kept(system());
  messages_.clear();
  set_system(kept);
}

}  // namespace kvik
