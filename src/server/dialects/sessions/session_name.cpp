#include "server/dialects/sessions/session_name.h"

#include <algorithm>

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

}  // namespace

SessionName session_name(std::string_view given_id, const ChatRequest& chat) {
  const auto first = std::ranges::find(chat.messages, "user", &Message::role);
  if (first == chat.messages.end()) return {};
  Sha256 hash;
  hash.add_number(chat.tools.empty());
  hash.add_number(chat.messages.front().role == "user");
  hash.add_text(without_reminders(text_of(*first)));
  const Sha256Digest digest = hash.finish();
  SessionName name;
  name.conversation = to_hex(std::span(digest).first(8));
  name.id = given_id.empty() ? name.conversation : shortened(given_id);
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
