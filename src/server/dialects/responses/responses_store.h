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

// Stored answers of /v1/responses with their conversations, so that clients can retrieve them and
// continue from them. Each belongs to an owner; no other owner finds it or its items. Bounded: the
// least recently used record is evicted first, and an owner with too many loses its own. With an
// archive, it starts with the archive's records and forwards all changes. Any thread.
class ResponseStore {
 public:
  struct Bounds {
    size_t total_bytes;
    size_t bytes_of_key;
  };
  // Borrows the archive; null: none.
  explicit ResponseStore(Bounds bounds, ResponseArchive* archive = nullptr);

  // A stored answer.
  struct Record {
    std::string owner;                  // owner_id(): a digest that reveals no name
    std::string response;               // the body
    std::vector<std::string> items;     // JSON of input and output
    std::vector<std::string> item_ids;  // id of each item; empty if it has none
    std::string previous = {};          // id of the response that this one continues

    // Memory including the store's overhead.
    size_t n_bytes() const;
  };
  void put(const std::string& id, Record record);
  // Likewise, but only in memory, because the response is still in progress. It is not evicted
  // before put(). Returns whether the bounds allow another record of this kind.
  [[nodiscard]] bool put_unfinished(const std::string& id, Record record);

  std::optional<std::string> response(std::string_view owner, std::string_view id);
  bool erase(std::string_view owner, std::string_view id);

  // Returns the items of the conversation up to and including that response; std::nullopt if one of
  // its responses no longer exists.
  std::optional<std::vector<std::string>> conversation(std::string_view owner, std::string_view id);

  // Returns an item by its id.
  std::optional<std::string> item(std::string_view owner, std::string_view item_id);

  size_t n_bytes() const;

 private:
  using Order = std::list<std::string>;  // ids, least recently used first
  struct Entry {
    Record record;
    Order::iterator place;
    bool is_finished;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  Entries::iterator find(std::string_view owner, std::string_view id) REQUIRES(mutex_);
  void add(const std::string& id, Record record, bool is_finished) REQUIRES(mutex_);
  size_t unfinished_bytes(std::string_view owner) const REQUIRES(mutex_);
  void begin_with(ResponseArchive& archive);
  void drop(Entries::iterator entry) REQUIRES(mutex_);
  void make_room(const std::string& owner) REQUIRES(mutex_);

  mutable Mutex mutex_;
  const Bounds bounds_;
  ResponseArchive* archive_ = nullptr;  // null: none, or none yet
  Entries entries_ GUARDED_BY(mutex_);
  Order order_ GUARDED_BY(mutex_);
  // Ids of responses by owner and item id, because clients choose the ids of their items.
  std::map<std::string, std::string, std::less<>> holders_ GUARDED_BY(mutex_);
  std::map<std::string, size_t, std::less<>> bytes_ GUARDED_BY(mutex_);  // bytes by owner
  size_t n_bytes_ GUARDED_BY(mutex_) = 0;
};

// Persistent storage of records. put() and erase() return at once; operations are executed in
// order, as fast as the device allows. Any thread.
class ResponseArchive {
 public:
  virtual ~ResponseArchive() = default;
  // Reads the newest records within the bounds, in the order in which they were stored; older ones
  // are deleted.
  virtual void load(const ResponseStore::Bounds& bounds,
                    const std::function<void(std::string id, ResponseStore::Record)>& take) = 0;
  virtual void put(const std::string& id, const ResponseStore::Record& record) = 0;
  virtual void erase(const std::string& id) = 0;
};

}  // namespace kvik
