#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "base/mutex.h"
#include "base/result.h"
#include "server/http/http_message.h"
#include "server/http/pending_reply.h"

namespace kvik {

// Responses that are computed without a connection (`background`). A thread drives them, from the
// first of them on; their results go to the ResponseStore. Any thread.
class BackgroundResponses {
 public:
  struct Job {
    std::string owner;                    // owner_id()
    std::unique_ptr<PendingReply> reply;  // its body stores the response when it is written
    // Stores the response as failed with this error; null: as cancelled.
    std::function<void(const HttpError* error)> store_unfinished;
  };

  // `count` is called with 1 and -1 when a response begins and ends.
  explicit BackgroundResponses(std::function<void(int)> count) : count_(std::move(count)) {}
  ~BackgroundResponses() { stop(); }

  // Errors: kUnavailable after stop(); kIo if the system refuses the thread.
  Result<void> add(const std::string& id, Job job);

  bool is_running(std::string_view owner, std::string_view id) const;
  // Cancels a response and stores it as cancelled. If it is complete but not stored yet, waits
  // until it is. Does nothing if it does not run.
  void cancel(std::string_view owner, std::string_view id);
  // Likewise, but stores nothing. Returns whether it ran.
  bool discard(std::string_view owner, std::string_view id);

  // Stores all that still run as failed, and refuses new ones.
  void stop();

 private:
  struct Running {
    Job job;
    std::atomic<bool> has_results = false;  // since advance() was called last
    bool is_busy = true;                    // a thread uses it without the lock
  };
  using Shared = std::shared_ptr<Running>;

  struct Next {
    std::string id;
    Shared running;  // null after stop()
  };

  void run();
  Next next();
  void put_back(const std::string& id, bool has_ended);
  Shared take(std::string_view owner, std::string_view id);
  void wake(Running& running);
  static bool advance(Running& running);

  const std::function<void(int)> count_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Shared, std::less<>> running_ GUARDED_BY(mutex_);  // by id
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);
};

}  // namespace kvik
