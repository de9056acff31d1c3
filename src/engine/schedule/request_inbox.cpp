#include "engine/schedule/request_inbox.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

namespace kvik {
namespace {

// Cancels between two steps that need no memory.
constexpr size_t kCancelsAtOnce = 1024;
constexpr std::chrono::milliseconds kMemoryPause{5};

}  // namespace

RequestInbox::Messages::Messages() { cancels.reserve(kCancelsAtOnce); }

RequestInbox::RequestInbox(uint32_t max_queue, uint32_t n_tenants, const Clock& clock)
    : limit_(max_queue, n_tenants), clock_(clock) {
  cancels_.reserve(kCancelsAtOnce);
}

Result<RequestId> RequestInbox::submit(Request request, std::shared_ptr<EventSink> sink) {
  RequestId id{};
  {
    const MutexLock lock(mutex_);
    if (is_draining_) return fail(ErrorCode::kUnavailable, "the server is shutting down");
    TRY_ASSIGN(QueuePlace place, limit_.enter(request.tenant));
    id = RequestId{next_id_++};
    requests_.push_back({id, std::move(request), std::move(sink), std::move(place), clock_.now()});
    is_idle_ = false;
  }
  wake_.notify_one();
  return id;
}

Result<void> RequestInbox::check_room() const {
  {
    const MutexLock lock(mutex_);
    if (is_draining_) return fail(ErrorCode::kUnavailable, "the server is shutting down");
  }
  return limit_.check();
}

// Waits for memory if there is none: a cancel must not be lost.
void RequestInbox::cancel(RequestId id) {
  for (;;) {
    try {
      const MutexLock lock(mutex_);
      cancels_.push_back(id);
      has_cancels_ = true;
      break;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kMemoryPause);
    }
  }
  wake_.notify_one();
}

bool RequestInbox::drain(Duration at_most) {
  const MutexLock lock(mutex_);
  is_draining_ = true;
  return idle_.wait_for(mutex_, at_most, [this]() REQUIRES(mutex_) { return is_idle_; });
}

void RequestInbox::stop() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = is_draining_ = true;
    has_cancels_ = true;
  }
  wake_.notify_one();
}

bool RequestInbox::is_stopping() const {
  const MutexLock lock(mutex_);
  return is_stopping_;
}

void RequestInbox::wake() {
  {
    const MutexLock lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_one();
}

uint64_t RequestInbox::probe_progress() {
  const uint64_t n_signs = n_signs_.load(std::memory_order_relaxed);
  wake();
  return n_signs;
}

EngineSnapshot RequestInbox::snapshot() const {
  const MutexLock lock(mutex_);
  EngineSnapshot snapshot = snapshot_;
  if (snapshot.running_step.n_sequences > 0)
    snapshot.running_step_s = to_s(clock_.now() - snapshot.running_step.begin);
  snapshot.n_waiting += static_cast<uint32_t>(requests_.size());
  return snapshot;
}

bool RequestInbox::take(Messages& messages, TimePoint until) {
  messages.requests.clear();
  messages.cancels.clear();
  n_signs_.fetch_add(1, std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  const auto has_work = [this]() REQUIRES(mutex_) {
    return is_woken_ || !requests_.empty() || !cancels_.empty() || is_stopping_;
  };
  if (until == TimePoint::max()) {
    wake_.wait(mutex_, has_work);
  } else if (until != TimePoint::min()) {
    wake_.wait_until(mutex_, until, has_work);
  }
  is_woken_ = false;
  std::swap(messages.requests, requests_);
  std::swap(messages.cancels, cancels_);
  has_cancels_ = is_stopping_;
  snapshot_.n_waiting += static_cast<uint32_t>(messages.requests.size());
  return !is_stopping_;
}

bool RequestInbox::are_cancelled(std::span<const RequestId> ids) {
  n_signs_.fetch_add(1, std::memory_order_relaxed);
  if (!has_cancels_.load(std::memory_order_relaxed)) return false;
  const MutexLock lock(mutex_);
  return is_stopping_ || std::ranges::all_of(ids, [this](RequestId id) REQUIRES(mutex_) {
           return std::ranges::find(cancels_, id) != cancels_.end();
         });
}

void RequestInbox::begin_step(const RunningStep& step, uint32_t n_running, uint32_t n_waiting) {
  const MutexLock lock(mutex_);
  snapshot_.running_step = step;
  snapshot_.n_running = n_running;
  snapshot_.n_waiting = n_waiting;
}

void RequestInbox::publish(const EngineSnapshot& snapshot, bool is_busy) {
  const MutexLock lock(mutex_);
  snapshot_ = snapshot;
  is_idle_ = !is_busy && requests_.empty();
  if (is_idle_) idle_.notify_all();
}

}  // namespace kvik
