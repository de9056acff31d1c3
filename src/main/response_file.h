#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "kv/tiers/sqlite.h"
#include "server/dialects/responses/responses_store.h"

namespace kvik {

// The records of a ResponseStore in one SQLite file, which nobody else may read (0600). A thread of
// its own writes; what waits for it is bounded, and what finds no room is left out: that response
// does not outlive the process. What is damaged is left out as well.
class ResponseFile final : public ResponseArchive {
 public:
  // Errors: kIo; kCorrupt where there is another file of that name.
  static Result<std::unique_ptr<ResponseFile>> open(const std::string& path);
  // Null where it cannot be had: responses are kept in memory alone then.
  static std::unique_ptr<ResponseFile> open_or_warn(const std::string& path);

  ~ResponseFile() override;  // writes what waits

  void load(const std::function<void(std::string id, ResponseStore::Record)>& take) override;
  void put(const std::string& id, const ResponseStore::Record& record) override;
  void erase(const std::string& id) override;

 private:
  struct Change {
    std::string id;
    std::optional<std::string> bytes;  // absent: it goes
  };

  explicit ResponseFile(Sqlite database);
  void add(Change change);
  void forget(const Change& change);
  void write_changes();
  Result<void> write(const Change& change);
  Result<void> read(const std::function<void(std::string id, ResponseStore::Record)>& take);

  Sqlite database_;  // of the thread, once it runs
  int64_t next_number_ = 1;
  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Change> waiting_ GUARDED_BY(mutex_);
  size_t n_bytes_ GUARDED_BY(mutex_) = 0;  // of what waits and what is being written
  bool is_ending_ GUARDED_BY(mutex_) = false;
  std::thread writer_;
};

}  // namespace kvik
