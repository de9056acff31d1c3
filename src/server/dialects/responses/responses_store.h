#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"

namespace kvik {

class ResponseArchive;

// Answers of /v1/responses that were asked to be kept, with what they answered, so that a client
// may ask for them again and go on from one. Each belongs to an owner; no other finds it, or any of
// its items. Bounded: the least recently used record is evicted first, and of an owner with too
// much its own. With an archive it begins with what is there, and tells it all that comes and goes.
// Any thread.
class ResponseStore {
 public:
  struct Bounds {
    size_t total_bytes;
    size_t bytes_of_key;
  };
  // The archive is borrowed; null: none.
  explicit ResponseStore(Bounds bounds, ResponseArchive* archive = nullptr);

  struct Record {
    std::string owner;                  // owner_id(): a digest, which tells no name
    std::string response;               // the body
    std::vector<std::string> items;     // JSON: what was asked, and what was answered
    std::vector<std::string> item_ids;  // of those items that have one, else empty
    std::string previous = {};          // the id of the response that this one goes on from

    // Of memory, with all that the store has beside it.
    size_t n_bytes() const;
  };
  void put(const std::string& id, Record record);

  std::optional<std::string> response(std::string_view owner, std::string_view id);
  bool erase(std::string_view owner, std::string_view id);

  // The items of the whole conversation up to and with that response; nullopt where one of them is
  // no longer there.
  std::optional<std::vector<std::string>> conversation(std::string_view owner, std::string_view id);

  // One item by its id.
  std::optional<std::string> item(std::string_view owner, std::string_view item_id);

  size_t n_bytes() const;

 private:
  using Order = std::list<std::string>;  // ids, the one used longest ago first
  struct Entry {
    Record record;
    Order::iterator place;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  Entries::iterator find(std::string_view owner, std::string_view id) REQUIRES(mutex_);
  void add(const std::string& id, Record record) REQUIRES(mutex_);
  void begin_with(ResponseArchive& archive);
  void drop(Entries::iterator entry) REQUIRES(mutex_);
  void make_room(const std::string& owner) REQUIRES(mutex_);

  mutable Mutex mutex_;
  const Bounds bounds_;
  ResponseArchive* archive_ = nullptr;  // null: none, or none yet
  Entries entries_ GUARDED_BY(mutex_);
  Order order_ GUARDED_BY(mutex_);
  // Ids of responses, by the owner and the id of an item: clients choose the ids of their items.
  std::map<std::string, std::string, std::less<>> holders_ GUARDED_BY(mutex_);
  std::map<std::string, size_t, std::less<>> bytes_ GUARDED_BY(mutex_);  // by owner
  size_t n_bytes_ GUARDED_BY(mutex_) = 0;
};

// Where records outlive the process. put() and erase() return at once; what is asked of it is done
// in order, as far as the device keeps up. Any thread.
class ResponseArchive {
 public:
  virtual ~ResponseArchive() = default;
  // Reads what is there and within the bounds, in the order in which it was put. The newest records
  // are kept; what is older than they are is erased.
  virtual void load(const ResponseStore::Bounds& bounds,
                    const std::function<void(std::string id, ResponseStore::Record)>& take) = 0;
  virtual void put(const std::string& id, const ResponseStore::Record& record) = 0;
  virtual void erase(const std::string& id) = 0;
};

}  // namespace kvik
