#include "cli/conversation_file.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file/atomic_file.h"

namespace kvik {
namespace {

namespace json = boost::json;

constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr unsigned kMode = 0600;  // conversations are private

std::string as_json(std::string_view text) {
  return json::serialize(json::string_view(text.data(), text.size()));
}

// Writes one message per line, for readability.
std::string to_json(const Conversation& conversation, const std::string& model) {
  std::string out = fmt::format("{{\"model\": {},\n \"messages\": [", as_json(model));
  std::string_view between = "\n";
  for (const Message& message : conversation.messages()) {
    out += fmt::format("{}  {{\"role\": {}, \"content\": {}}}", std::exchange(between, ",\n"),
                       as_json(message.role), as_json(text_of(message)));
  }
  return out + "\n]}\n";
}

std::unexpected<Error> refuse(const std::string& path, std::string_view why) {
  return fail(ErrorCode::kCorrupt, fmt::format("'{}' is not a saved conversation: {}", path, why));
}

const json::string* string_in(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  return value ? value->if_string() : nullptr;
}

Result<Message> read_message(const std::string& path, const json::value& value, size_t number) {
  const json::object* object = value.if_object();
  const json::string* role = object ? string_in(*object, "role") : nullptr;
  const json::string* content = object ? string_in(*object, "content") : nullptr;
  if (!role || !content) {
    return refuse(path,
                  fmt::format("message {} lacks a role or a content that is a string", number));
  }
  if (*role != "user" && *role != "assistant" && !(*role == "system" && number == 1)) {
    return refuse(path, fmt::format("message {} has the role '{}', expected user or assistant, or "
                                    "system for the first",
                                    number, std::string_view(role->data(), role->size())));
  }
  return text_message({role->data(), role->size()}, {content->data(), content->size()});
}

}  // namespace

Result<Conversation> load_conversation(const std::string& path) {
  TRY_ASSIGN(const std::string bytes, read_whole(path, kMaxBytes));
  json::error_code error;
  const json::value value = json::parse(bytes, error);
  if (error) return refuse(path, "it is not JSON");
  const json::object* object = value.if_object();
  const json::value* list = object ? object->if_contains("messages") : nullptr;
  if (!list || !list->is_array()) return refuse(path, "it has no list of messages");
  std::vector<Message> messages;
  for (const json::value& item : list->get_array()) {
    TRY_ASSIGN(Message message, read_message(path, item, messages.size() + 1));
    messages.push_back(std::move(message));
  }
  return Conversation(std::move(messages));
}

Result<Saved> save_conversation(const Conversation& conversation, const std::string& model,
                                const std::string& path) {
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  if (exists && !load_conversation(path)) {
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' exists and is not a saved conversation; it was left unchanged", path));
  }
  TRY(write_atomically(path, to_json(conversation, model), kMode));
  return exists ? Saved::kReplaced : Saved::kNew;
}

}  // namespace kvik
