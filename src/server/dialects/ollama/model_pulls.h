#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/result.h"
#include "server/http/offload.h"
#include "service/model_library.h"

namespace kvik {

// Passes the progress of a download from its thread to the network thread. For a slow reader,
// reports of one file are merged: the newest replaces those before it.
class PullMailbox {
 public:
  // Called by the download's thread. put() returns false if the download should stop.
  bool put(const PullProgress& progress);
  void end(Result<StoredModel> result);

  struct News {
    std::optional<PullProgress> progress;
    bool has_ended = false;      // nothing follows
    std::optional<Error> error;  // with has_ended: the reason why the download failed
  };
  News take();

  // `wake` is called under the lock, from any thread, and at once if there is something to take.
  void set_wake(std::function<void()> wake);
  // After this returns, no wake is running or will follow, and the download stops.
  void close();

 private:
  Mutex mutex_;
  std::deque<PullProgress> waiting_ GUARDED_BY(mutex_);
  std::optional<Result<StoredModel>> result_ GUARDED_BY(mutex_);
  std::function<void()> wake_ GUARDED_BY(mutex_);
  bool is_closed_ GUARDED_BY(mutex_) = false;
};

// Downloads models on threads of its own, a few at a time. Any thread.
class ModelPulls {
 public:
  static constexpr unsigned kMost = 2;

  ModelPulls() = default;
  ~ModelPulls() { stop(); }
  ModelPulls(const ModelPulls&) = delete;
  ModelPulls& operator=(const ModelPulls&) = delete;

  // Starts the threads. Errors: kIo if the system refuses one.
  Result<void> start();

  // Starts a download. Borrows the library until stop(). Errors: kExhausted if kMost are running.
  Result<std::shared_ptr<PullMailbox>> pull(ModelLibrary& library, const std::string& name);

  // Stops all downloads, and waits until they have ended.
  void stop();

 private:
  // Counts a download as long as it exists.
  class Slot {
   public:
    explicit Slot(std::atomic<unsigned>& n) : n_(n), index_(n.fetch_add(1)) {}
    ~Slot() { --n_; }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    // Returns the number of downloads that existed before it.
    unsigned index() const { return index_; }

   private:
    std::atomic<unsigned>& n_;
    const unsigned index_;
  };

  Result<StoredModel> pulled(ModelLibrary& library, const std::string& name,
                             PullMailbox& mailbox) const;

  Offload threads_;
  std::atomic<unsigned> n_running_{0};
  std::atomic<bool> is_stopping_{false};
};

}  // namespace kvik
