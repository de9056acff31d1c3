#include "service/history/answer_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <ranges>

#include "base/blanks.h"

namespace kvik {
namespace {

// An answer's own size and its places in the containers.
uint64_t bytes_of(const RememberedAnswer& answer) {
  constexpr uint64_t kOverhead = 512;
  return kOverhead + answer.ids.size() * sizeof(TokenId) + answer.opening.size() +
         answer.reasoning.size();
}

// Adds the value: 1 is 1.0, but integers that round to the same double differ.
void add_number(Sha256& hash, const Json& data) {
  constexpr double kExact = 9007199254740992;  // 2^53
  const std::string text = data.number_text();
  const auto number = data.number();
  const bool is_small = number && std::abs(*number) < kExact;
  if (is_small && *number == std::trunc(*number))
    hash.add_text(fmt::format("{}", static_cast<int64_t>(*number)));
  else if (!number || text.find_first_of(".eE") == text.npos)
    hash.add_text(text);
  else
    hash.add_number(std::bit_cast<uint64_t>(*number));
}

void add(Sha256& hash, const Json& data) {
  hash.add_number(static_cast<uint64_t>(data.kind()));
  switch (data.kind()) {
    case Json::Kind::kNull:
    case Json::Kind::kFalse:
    case Json::Kind::kTrue:
      return;
    case Json::Kind::kNumber:
      return add_number(hash, data);
    case Json::Kind::kString:
      return hash.add_text(data.text());
    case Json::Kind::kArray:
      hash.add_number(data.size());
      for (const Json& item : data.list()) add(hash, item);
      return;
    case Json::Kind::kObject:
      break;
  }
  std::vector<const Json::Field*> fields;
  for (const Json::Field& field : data.fields()) fields.push_back(&field);
  std::ranges::sort(fields, {}, [](const Json::Field* field) { return field->name; });
  hash.add_number(fields.size());
  for (const Json::Field* field : fields) {
    hash.add_text(field->name);
    add(hash, field->data);
  }
}

bool has_only(const Json& object, std::initializer_list<std::string_view> names) {
  return object.is(Json::Kind::kObject) &&
         std::ranges::all_of(object.fields(), [&](const Json::Field& field) {
           return std::ranges::count(names, field.name) > 0;
         });
}

// Reads calls that have their keys in another order, or the "index" of a streamed call. Returns
// nullopt for calls with other members.
std::optional<std::vector<ToolCall>> read_calls(const Json& calls) {
  std::vector<ToolCall> out;
  for (const Json& call : calls.list()) {
    const Json* function = call.find("function");
    const Json* name = function ? function->find("name") : nullptr;
    const Json* arguments = function ? function->find("arguments") : nullptr;
    if (!has_only(call, {"id", "type", "function", "index"}) || !name || !arguments ||
        !has_only(*function, {"name", "arguments"})) {
      return std::nullopt;
    }
    out.push_back({.id = {}, .name = name->text(), .arguments = *arguments});
  }
  return out;
}

// Matches null, false, "", [] and {}, with which clients fill fields that they do not use.
bool is_nothing(const Json& data) {
  if (data.is(Json::Kind::kString)) return data.text().empty();
  const bool is_list = data.is(Json::Kind::kArray) || data.is(Json::Kind::kObject);
  return data.is(Json::Kind::kNull) || data.is(Json::Kind::kFalse) || (is_list && data.size() == 0);
}

void add_answer(Sha256& hash, const Message& message) {
  hash.add_text(trimmed(text_of(message)));
  std::vector<ToolCall> calls = calls_of(message);
  for (const Json::Field& field : message.further) {
    auto others = field.name == "tool_calls" ? read_calls(field.data) : std::nullopt;
    if (others) {
      std::ranges::move(*others, std::back_inserter(calls));
    } else if (!is_nothing(field.data)) {
      hash.add_text(field.name);
      add(hash, field.data);
    }
  }
  if (message.name) hash.add_text(*message.name);
  hash.add_number(calls.size());
  for (const ToolCall& call : calls) {
    hash.add_text(call.name);
    add(hash, call.arguments);
  }
}

}  // namespace

ConversationKey conversation_key(const AnswerOwner& owner) {
  Sha256 hash;
  hash.add_text(owner.client);
  hash.add_text(owner.scope);
  return hash.finish();
}

ConversationKey with_message(const ConversationKey& before, const Message& message) {
  Sha256 hash;
  hash.add(before);
  hash.add_text(message.role);
  if (message.role == "assistant")
    add_answer(hash, message);
  else
    hash.add_text(text_of(message));
  return hash.finish();
}

void AnswerMemory::remember(std::string_view client, const ConversationKey& key,
                            RememberedAnswer answer) {
  answer.ids.shrink_to_fit();
  const uint64_t n_bytes = bytes_of(answer);
  if (n_bytes > max_bytes_ / 4) return;
  const MutexLock lock(mutex_);
  ++n_changes_;
  if (const auto known = places_.find(key); known != places_.end()) erase(known->second);
  const auto place = clients_.try_emplace(std::string(client)).first;
  place->second.entries.push_front(
      {key, std::make_shared<const RememberedAnswer>(std::move(answer)), n_bytes});
  places_[key] = {place, place->second.entries.begin()};
  resize(place, place->second.n_bytes + n_bytes);
  while (n_bytes_ > max_bytes_) {
    const auto largest = clients_.find(by_size_.rbegin()->second);
    erase({largest, std::prev(largest->second.entries.end())});
  }
}

std::shared_ptr<const RememberedAnswer> AnswerMemory::find(const ConversationKey& key) {
  const MutexLock lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) return nullptr;
  const auto& [client, entry] = found->second;
  client->second.entries.splice(client->second.entries.begin(), client->second.entries, entry);
  return entry->answer;
}

std::vector<AnswerMemory::Stored> AnswerMemory::all() const {
  const MutexLock lock(mutex_);
  std::vector<Stored> out;
  for (const auto& [name, client] : clients_) {
    for (const Entry& entry : std::views::reverse(client.entries))
      out.push_back({name, entry.key, entry.answer});
  }
  return out;
}

uint64_t AnswerMemory::n_changes() const {
  const MutexLock lock(mutex_);
  return n_changes_;
}

uint64_t AnswerMemory::n_bytes() const {
  const MutexLock lock(mutex_);
  return n_bytes_;
}

// Sets the bytes of a client; one without any is forgotten.
void AnswerMemory::resize(Clients::iterator client, uint64_t n_bytes) {
  by_size_.erase({client->second.n_bytes, client->first});
  n_bytes_ += n_bytes - client->second.n_bytes;
  client->second.n_bytes = n_bytes;
  if (n_bytes > 0)
    by_size_.emplace(n_bytes, client->first);
  else
    clients_.erase(client);
}

void AnswerMemory::erase(const Place& place) {
  const auto [client, entry] = place;
  const uint64_t n_bytes = client->second.n_bytes - entry->n_bytes;
  places_.erase(entry->key);
  client->second.entries.erase(entry);
  resize(client, n_bytes);
}

}  // namespace kvik
