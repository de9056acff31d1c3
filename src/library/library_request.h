#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "library/library_model.h"

namespace kvik {

// A request of the HTTP API that is handled in this process. One thread, except where noted.
class LibraryRequest {
 public:
  // Prepares and submits the request on this thread. Errors: those of the route and of
  // LibraryModel::check_memory().
  static Result<std::unique_ptr<LibraryRequest>> start(std::shared_ptr<LibraryModel> model,
                                                       HttpRequest request);
  ~LibraryRequest();

  enum class Event : uint8_t { kNone, kData, kEnd };
  // Waits for the next event, at most until `end`; absent: without a limit. Errors: those of an
  // answer that failed; the request has then ended.
  Result<Event> next(std::optional<TimePoint> end);
  // Returns the text of the last event; valid until next() is called again.
  const std::string& data() const { return data_; }

  // Sets a function that receives the text of each event before next() returns it.
  void set_observer(std::function<void(std::string_view)> observer) {
    observer_ = std::move(observer);
  }
  // Sets a function that is called now, and, on any thread, when next() has something to return.
  // After this returns, the function set before is not running and will not be called.
  void set_wake(std::function<void()> wake);

  // Lets next() return kEnd. Any thread.
  void cancel();

 private:
  LibraryRequest(std::shared_ptr<LibraryModel> model, HttpRequest request)
      : model_(std::move(model)), request_(std::move(request)) {}

  Result<void> begin();
  Result<Event> advance();
  Result<Event> finish(HttpResponse response);
  Result<Event> deliver(std::string text);
  void signal();

  const std::shared_ptr<LibraryModel> model_;
  const HttpRequest request_;
  std::unique_ptr<PendingReply> reply_;   // null: it has ended or was answered at once
  std::optional<HttpResponse> response_;  // an answer that was there at once
  std::function<void(std::string_view)> observer_;
  std::string data_;

  Mutex mutex_;
  CondVar changed_;
  bool has_news_ GUARDED_BY(mutex_) = true;
  bool is_cancelled_ GUARDED_BY(mutex_) = false;
  std::function<void()> wake_ GUARDED_BY(mutex_);
};

}  // namespace kvik
