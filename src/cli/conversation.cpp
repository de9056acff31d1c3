#include "cli/conversation.h"

#include <utility>

#include "base/check.h"

namespace kvik {
namespace {

jinja::Value given(const std::string& text) {
  return jinja::make_text(text, jinja::Origin::kGiven);
}

}  // namespace

size_t Conversation::n_turns() const { return messages_.size() - (system().empty() ? 0 : 1); }

std::string_view Conversation::system() const {
  if (messages_.empty() || messages_.front().role != "system") return {};
  return messages_.front().content;
}

void Conversation::set_system(std::string system) {
  if (!messages_.empty() && messages_.front().role == "system") messages_.erase(messages_.begin());
  if (system.empty()) return;
  messages_.insert(messages_.begin(), {.role = "system", .content = std::move(system)});
}

void Conversation::add(std::string_view role, std::string content) {
  messages_.push_back({.role = std::string(role), .content = std::move(content)});
}

ChatMessage Conversation::take_back() {
  CHECK(!messages_.empty());
  ChatMessage last = std::move(messages_.back());
  messages_.pop_back();
  return last;
}

void Conversation::clear() {
  const std::string kept(system());
  messages_.clear();
  set_system(kept);
}

jinja::Value Conversation::to_template() const {
  std::vector<jinja::Value> items;
  for (const ChatMessage& message : messages_) {
    jinja::Dict dict;
    dict.entries.emplace_back(given("role"), given(message.role));
    dict.entries.emplace_back(given("content"), given(message.content));
    items.emplace_back(std::move(dict));
  }
  return jinja::make_list(std::move(items));
}

}  // namespace kvik
