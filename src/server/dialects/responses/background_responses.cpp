#include "server/dialects/responses/background_responses.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/process/thread.h"
#include "server/http/status.h"

namespace kvik {
namespace {

Error is_stopping() { return {ErrorCode::kUnavailable, "the server is stopping"}; }

}  // namespace

Result<void> BackgroundResponses::add(const std::string& id, Job job) {
  const auto running = std::make_shared<Running>();
  running->job = std::move(job);
  {
    const MutexLock lock(mutex_);
    if (is_stopping_) return std::unexpected(is_stopping());
    if (!thread_.joinable()) {
      TRY_ASSIGN(thread_, start_thread("kvik-background", [this] { run(); }));
    }
    running_.emplace(id, running);
  }
  count_(1);
  // Without the lock, because the function may be called at once.
  running->job.reply->set_wake([this, it = running.get()] { wake(*it); });
  const MutexLock lock(mutex_);
  running->is_busy = false;
  changed_.notify_all();
  return {};
}

// Called under the lock of a reply's results: no function of a reply is called under `mutex_`.
void BackgroundResponses::wake(Running& running) {
  running.has_results = true;
  const MutexLock lock(mutex_);
  changed_.notify_all();
}

void BackgroundResponses::run() {
  for (;;) {
    const auto [id, running] = next();
    if (!running) return;
    const bool has_ended = advance(*running);
    put_back(id, has_ended);
    if (!has_ended) continue;
    running->job.reply.reset();
    count_(-1);
  }
}

// Waits for a response with results.
BackgroundResponses::Next BackgroundResponses::next() {
  const MutexLock lock(mutex_);
  auto found = running_.end();
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) {
    found = std::ranges::find_if(running_, [](const auto& entry) {
      return !entry.second->is_busy && entry.second->has_results;
    });
    return is_stopping_ || found != running_.end();
  });
  if (is_stopping_) return {};
  found->second->is_busy = true;
  found->second->has_results = false;
  return {found->first, found->second};
}

void BackgroundResponses::put_back(const std::string& id, bool has_ended) {
  const MutexLock lock(mutex_);
  const auto found = running_.find(id);
  found->second->is_busy = false;
  if (has_ended) running_.erase(found);
  changed_.notify_all();
}

// Returns whether the response has ended and is stored.
bool BackgroundResponses::advance(Running& running) {
  const Job& job = running.job;
  try {
    std::string unused;
    if (job.reply->advance(unused) == PendingReply::State::kRunning) return false;
    const HttpResponse response = job.reply->response();
    while (response.source && response.source->next(unused)) unused.clear();
    if (response.error) job.store_unfinished(&*response.error);
  } catch (const std::bad_alloc&) {
    const HttpResponse full = error_response(no_memory());
    job.store_unfinished(&*full.error);
  }
  return true;
}

bool BackgroundResponses::is_running(std::string_view owner, std::string_view id) const {
  const MutexLock lock(mutex_);
  const auto found = running_.find(id);
  return found != running_.end() && found->second->job.owner == owner;
}

// Removes a response that runs; null if there is none, or if it ended meanwhile.
BackgroundResponses::Shared BackgroundResponses::take(std::string_view owner, std::string_view id) {
  const MutexLock lock(mutex_);
  auto found = running_.end();
  changed_.wait(mutex_, [&]() REQUIRES(mutex_) {
    found = running_.find(id);
    if (found != running_.end() && found->second->job.owner != owner) found = running_.end();
    return found == running_.end() || !found->second->is_busy;
  });
  if (found == running_.end()) return nullptr;
  Shared taken = std::move(found->second);
  running_.erase(found);
  return taken;
}

void BackgroundResponses::cancel(std::string_view owner, std::string_view id) {
  const Shared taken = take(owner, id);
  if (!taken) return;
  taken->job.reply.reset();
  taken->job.store_unfinished(nullptr);
  count_(-1);
}

bool BackgroundResponses::discard(std::string_view owner, std::string_view id) {
  const Shared taken = take(owner, id);
  if (!taken) return false;
  taken->job.reply.reset();
  count_(-1);
  return true;
}

void BackgroundResponses::stop() {
  std::thread thread;
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
    thread = std::move(thread_);
  }
  join_if_started(thread);
  std::map<std::string, Shared, std::less<>> left;
  {
    const MutexLock lock(mutex_);
    // One that is being added is still in use.
    changed_.wait(mutex_, [&]() REQUIRES(mutex_) {
      return std::ranges::none_of(running_, [](const auto& one) { return one.second->is_busy; });
    });
    left.swap(running_);
  }
  HttpError error = http_error(is_stopping());
  error.message = "the server stopped before this response was complete";
  for (const auto& [id, running] : left) {
    running->job.reply.reset();
    running->job.store_unfinished(&error);
    count_(-1);
  }
}

}  // namespace kvik
