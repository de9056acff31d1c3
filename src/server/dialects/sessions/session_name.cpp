#include "server/dialects/sessions/session_name.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/printable.h"

namespace kvik {
namespace {

constexpr size_t kMaxIdBytes = 128;

// Takes time in proportion to the text.
std::string without_reminders(std::string_view text) {
  constexpr std::string_view kBegin = "<system-reminder>", kEnd = "</system-reminder>";
  std::string kept;
  for (;;) {
    const size_t begin = text.find(kBegin);
    kept += text.substr(0, begin);
    if (begin == text.npos) return kept;
    const size_t end = text.find(kEnd, begin);
    if (end == text.npos) return kept;
    text.remove_prefix(end + kEnd.size());
  }
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

// Returns an id of at most kMaxIdBytes. That of a longer one ends with its hash.
std::string shortened(std::string_view id) {
  constexpr size_t kHashBytes = 8;
  if (id.size() <= kMaxIdBytes) return valid_utf8(id);
  Sha256 hash;
  hash.add_text(id);
  const Sha256Digest digest = hash.finish();
  return valid_utf8(id.substr(0, kMaxIdBytes - 1 - 2 * kHashBytes)) + "-" +
         to_hex(std::span(digest).first(kHashBytes));
}

bool is_uuid(std::string_view text) {
  constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return std::ranges::equal(text, kForm, [](char c, char form) {
    const bool is_digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    return form == '-' ? c == '-' : is_digit;
  });
}

std::string_view name_of_tool(const Json& tool) {
  const Json* function = tool.find("function");
  const Json* name = (function ? *function : tool).find("name");
  return name ? std::string_view(name->text()) : std::string_view();
}

uint64_t hash_of_names(std::span<const std::string_view> names) {
  Sha256 hash;
  for (const std::string_view name : names) hash.add_text(name);
  const Sha256Digest digest = hash.finish();
  uint64_t out = 0;
  std::memcpy(&out, digest.data(), sizeof(out));
  return out;
}

}  // namespace

SessionName session_name(std::string_view given_id, const ChatRequest& chat) {
  const auto users = [](const Message& message) { return message.role == "user"; };
  auto first = std::ranges::find_if(chat.messages, users);
  if (first == chat.messages.end()) return {};
  std::string text = without_reminders(text_of(*first));
  while (is_blank(text)) {
    const auto next = std::ranges::find_if(std::next(first), chat.messages.end(), users);
    if (next == chat.messages.end()) break;
    first = next;
    text = without_reminders(text_of(*first));
  }
  Sha256 hash;
  hash.add_number(chat.tools.empty());
  hash.add_number(chat.messages.front().role == "user");
  hash.add_text(text);
  const Sha256Digest digest = hash.finish();
  SessionName name;
  name.conversation = to_hex(std::span(digest).first(8));
  name.id = given_id.empty() ? name.conversation : shortened(given_id);
  if (chat.tools.empty()) return name;
  std::vector<std::string_view> names;
  for (const Json& tool : chat.tools) names.push_back(name_of_tool(tool));
  name.tools = hash_of_names(names);
  std::ranges::sort(names);
  name.tool_set = hash_of_names(names);
  return name;
}

SessionName with_session_header(SessionName name, std::optional<std::string_view> header) {
  const bool is_named = !name.conversation.empty() && name.id != name.conversation;
  if (name.conversation.empty() || is_named || !header || header->empty()) return name;
  name.id = shortened(*header);
  return name;
}

std::string_view session_of_user_id(std::string_view user_id) {
  constexpr size_t kUuid = 36;
  const size_t at = user_id.rfind("session");
  if (at == user_id.npos) return {};
  for (size_t begin = at; begin + kUuid <= user_id.size(); ++begin) {
    if (is_uuid(user_id.substr(begin, kUuid))) return user_id.substr(begin, kUuid);
  }
  return {};
}

}  // namespace kvik
