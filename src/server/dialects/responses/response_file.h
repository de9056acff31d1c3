#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file/sqlite.h"
#include "base/mutex.h"
#include "base/result.h"
#include "server/dialects/responses/responses_store.h"

namespace kvik {

// Stores the records of a ResponseStore in an SQLite file that no other user can read (0600). A
// record has a checksum and identifies its owner by a digest; damaged records are ignored. A
// separate thread writes; its queue is bounded, and a response that finds no room does not outlive
// the process.
class ResponseFile final : public ResponseArchive {
 public:
  // Errors: kIo; kCorrupt if another file has that name. A file of an earlier version has records
  // without trustworthy owners and is replaced.
  static Result<std::unique_ptr<ResponseFile>> open(const std::string& path);
  // Returns null and logs a warning on failure: responses are then kept in memory only.
  static std::unique_ptr<ResponseFile> open_or_warn(const std::string& path);

  ~ResponseFile() override;  // writes queued records, for a few seconds at most

  void load(const ResponseStore::Bounds& bounds,
            const std::function<void(std::string id, ResponseStore::Record)>& take) override;
  void put(const std::string& id, const ResponseStore::Record& record) override;
  void erase(const std::string& id) override;

 private:
  struct Change {
    std::string id;
    std::optional<std::string> bytes;  // absent: delete it
  };

  explicit ResponseFile(Sqlite database);
  void add(Change change);
  void forget(const Change& change);
  static Result<std::unique_ptr<ResponseFile>> open_database(const std::string& path);
  void write_changes();
  void write_batch(std::deque<Change> batch);
  Result<void> write_all(const std::deque<Change>& batch);
  Result<void> write(const Change& change);
  Result<void> erase_some_old();
  struct Loaded {
    std::string id;
    ResponseStore::Record record;
  };
  Result<void> read(const ResponseStore::Bounds& bounds, std::vector<Loaded>& newest_first);
  Result<std::string> read_parts(SqliteStatement& parts, int64_t number, size_t max_bytes);

  Sqlite database_;  // used by the thread, once it runs
  int64_t next_number_ = 1;
  int64_t oldest_number_ = 0;  // older records are deleted when there is nothing else to do
  bool has_warned_ = false;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Change> waiting_ GUARDED_BY(mutex_);
  size_t n_bytes_ GUARDED_BY(mutex_) = 0;  // size of queued records and those being written
  std::optional<TimePoint> end_ GUARDED_BY(mutex_);  // deadline of the thread; absent: it runs
  std::thread writer_;
};

}  // namespace kvik
