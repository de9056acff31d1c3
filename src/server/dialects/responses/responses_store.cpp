#include "server/dialects/responses/responses_store.h"

#include <algorithm>
#include <utility>

namespace kvik {
namespace {

// Memory of a response, and of an item with an id, in maps and list, without texts.
constexpr size_t kResponseBytes = 512;
constexpr size_t kHolderBytes = 160;
constexpr size_t kLongestChain = 10'000;

size_t bytes_of(const std::string& text) {
  constexpr size_t kBlockBytes = 32;  // overhead and rounding of an allocation
  const bool is_inside = text.capacity() <= std::string().capacity();
  return sizeof(text) + (is_inside ? 0 : text.capacity() + kBlockBytes);
}

// A string that was built in pieces may use twice its size.
void shrink(ResponseStore::Record& record) {
  record.response.shrink_to_fit();
  for (std::string& item : record.items) item.shrink_to_fit();
  record.items.shrink_to_fit();
  record.item_ids.shrink_to_fit();
}

std::string holder_key(std::string_view owner, std::string_view item_id) {
  return std::string(owner).append(item_id);  // owners have equal length
}

}  // namespace

ResponseStore::ResponseStore(Bounds bounds, ResponseArchive* archive) : bounds_(bounds) {
  if (archive) begin_with(*archive);
}

// Deletes records from the archive that do not fit here.
void ResponseStore::begin_with(ResponseArchive& archive) {
  std::vector<std::string> ids;
  archive.load(bounds_, [&](std::string id, Record record) {
    const MutexLock lock(mutex_);
    add(id, std::move(record), true);
    ids.push_back(std::move(id));
  });
  const MutexLock lock(mutex_);
  for (const std::string& id : ids) {
    if (!entries_.contains(id)) archive.erase(id);
  }
  archive_ = &archive;
}

size_t ResponseStore::Record::n_bytes() const {
  size_t bytes = kResponseBytes + bytes_of(owner) + bytes_of(response) + bytes_of(previous);
  for (const std::string& item : items) bytes += bytes_of(item);
  for (const std::string& id : item_ids)
    bytes += bytes_of(id) + (id.empty() ? 0 : kHolderBytes + owner.size() + bytes_of(id));
  return bytes;
}

ResponseStore::Entries::iterator ResponseStore::find(std::string_view owner, std::string_view id) {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.record.owner == owner ? found : entries_.end();
}

void ResponseStore::drop(Entries::iterator entry) {
  const Record& record = entry->second.record;
  const size_t bytes = record.n_bytes();
  if (archive_) archive_->erase(entry->first);
  n_bytes_ -= bytes;
  const auto of_owner = bytes_.find(record.owner);
  of_owner->second -= bytes;
  if (of_owner->second == 0) bytes_.erase(of_owner);
  for (const std::string& id : record.item_ids) {
    const auto holder = holders_.find(holder_key(record.owner, id));
    if (holder != holders_.end() && holder->second == entry->first) holders_.erase(holder);
  }
  order_.erase(entry->second.place);
  entries_.erase(entry);
}

void ResponseStore::make_room(const std::string& owner) {
  // Drops the oldest finished record that matches. Returns false if there is none.
  const auto drop_oldest = [&](const auto& matches) REQUIRES(mutex_) {
    const auto oldest = std::ranges::find_if(order_, [&](const std::string& id) REQUIRES(mutex_) {
      const Entry& entry = entries_.find(id)->second;
      return entry.is_finished && matches(entry.record);
    });
    if (oldest == order_.end()) return false;
    drop(entries_.find(*oldest));
    return true;
  };
  const auto is_of_owner = [&](const Record& record) { return record.owner == owner; };
  while (bytes_[owner] > bounds_.bytes_of_key && drop_oldest(is_of_owner)) {
  }
  while (n_bytes_ > bounds_.total_bytes && drop_oldest([](const Record&) { return true; })) {
  }
}

// Returns the bytes of records in progress; owner: empty for those of all owners.
size_t ResponseStore::unfinished_bytes(std::string_view owner) const {
  size_t n = 0;
  for (const auto& [id, entry] : entries_) {
    const bool counts = owner.empty() || entry.record.owner == owner;
    if (counts && !entry.is_finished) n += entry.record.n_bytes();
  }
  return n;
}

void ResponseStore::put(const std::string& id, Record record) {
  const MutexLock lock(mutex_);
  if (const auto known = entries_.find(id); known != entries_.end()) drop(known);
  if (archive_) archive_->put(id, record);
  add(id, std::move(record), true);
}

bool ResponseStore::put_unfinished(const std::string& id, Record record) {
  const MutexLock lock(mutex_);
  shrink(record);
  const size_t bytes = record.n_bytes();
  // The other half is for those that have ended.
  if (unfinished_bytes(record.owner) + bytes > bounds_.bytes_of_key / 2) return false;
  if (unfinished_bytes("") + bytes > bounds_.total_bytes / 2) return false;
  add(id, std::move(record), false);
  return true;
}

void ResponseStore::add(const std::string& id, Record record, bool is_finished) {
  if (entries_.contains(id)) return;
  const std::string owner = record.owner;
  shrink(record);
  const size_t bytes = record.n_bytes();
  n_bytes_ += bytes;
  bytes_[owner] += bytes;
  for (const std::string& item : record.item_ids) {
    if (!item.empty()) holders_[holder_key(owner, item)] = id;
  }
  order_.push_back(id);
  entries_.emplace(id, Entry{std::move(record), std::prev(order_.end()), is_finished});
  make_room(owner);
}

std::optional<std::string> ResponseStore::response(std::string_view owner, std::string_view id) {
  const MutexLock lock(mutex_);
  const auto found = find(owner, id);
  if (found == entries_.end()) return std::nullopt;
  return found->second.record.response;
}

bool ResponseStore::erase(std::string_view owner, std::string_view id) {
  const MutexLock lock(mutex_);
  const auto found = find(owner, id);
  if (found == entries_.end()) return false;
  drop(found);
  return true;
}

std::optional<std::vector<std::string>> ResponseStore::conversation(std::string_view owner,
                                                                    std::string_view id) {
  const MutexLock lock(mutex_);
  std::vector<Entries::iterator> chain;
  for (std::string_view at = id; !at.empty();) {
    const auto found = find(owner, at);
    if (found == entries_.end() || chain.size() >= kLongestChain) return std::nullopt;
    chain.push_back(found);
    at = found->second.record.previous;
  }
  std::vector<std::string> items;
  std::ranges::reverse(chain);
  for (const auto& entry : chain) {
    order_.splice(order_.end(), order_, entry->second.place);  // now the most recently used
    std::ranges::copy(entry->second.record.items, std::back_inserter(items));
  }
  return items;
}

std::optional<std::string> ResponseStore::item(std::string_view owner, std::string_view item_id) {
  const MutexLock lock(mutex_);
  const auto holder = holders_.find(holder_key(owner, item_id));
  if (holder == holders_.end()) return std::nullopt;
  const auto found = find(owner, holder->second);
  if (found == entries_.end()) return std::nullopt;
  const Record& record = found->second.record;
  const auto at = std::ranges::find(record.item_ids, item_id);
  if (at == record.item_ids.end()) return std::nullopt;
  return record.items[static_cast<size_t>(at - record.item_ids.begin())];
}

size_t ResponseStore::n_bytes() const {
  const MutexLock lock(mutex_);
  return n_bytes_;
}

}  // namespace kvik
