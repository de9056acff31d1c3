#include "engine/engine_thread.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/process/memory_reserve.h"
#include "base/process/thread.h"
#include "base/rare_warning.h"
#include "engine/engine.h"

namespace kvik {
namespace {

constexpr std::chrono::milliseconds kTierPatience{20};
constexpr std::chrono::milliseconds kMemoryPause{5};
// Time during which an allocation of the engine thread is retried. Requests that fail release their
// memory within milliseconds; a step that fails ends all requests.
constexpr std::chrono::seconds kMemoryPatience{2};

// Cancels between two steps that need no memory.
constexpr size_t kCancelsAtOnce = 1024;

// Repeats `end`, which ends sequences, until it has enough memory or `gives_up` returns true. The
// sequences that end release theirs, so each attempt gets further.
template <class End, class GivesUp>
void retry_until_memory_is_free(const End& end, const GivesUp& gives_up) {
  for (;;) {
    try {
      return end();
    } catch (const std::bad_alloc&) {
      if (gives_up()) return;
      std::this_thread::sleep_for(kMemoryPause);
    }
  }
}

}  // namespace

EngineThread::EngineThread(std::unique_ptr<Engine> engine)
    : queue_(engine->limits().max_queue, engine->limits().n_tenants), engine_(std::move(engine)) {
  snapshot_ = engine_->snapshot();
  cancels_.reserve(kCancelsAtOnce);
  taken_cancels_.reserve(kCancelsAtOnce);
  engine_->set_wake([this] { wake(); });
  engine_->set_step_hooks(
      {.on_begin = [this](const RunningStep& step, uint32_t n_running,
                          uint32_t n_waiting) { begin_step(step, n_running, n_waiting); },
       .are_cancelled = [this](std::span<const RequestId> ids) { return are_cancelled(ids); }});
  auto thread = start_thread("kvik-engine", [this] { main(); });
  if (thread) {
    thread_ = std::move(*thread);
  } else {
    started_ = std::unexpected<Error>(thread.error());
  }
}

EngineThread::~EngineThread() {
  {
    const MutexLock lock(mutex_);
    stopping_ = draining_ = true;
    has_cancels_ = true;
  }
  wake_.notify_one();
  join_if_started(thread_);
  engine_->set_wake(nullptr);
}

void EngineThread::wake() {
  {
    const MutexLock lock(mutex_);
    is_woken_ = true;
  }
  wake_.notify_one();
}

Result<RequestId> EngineThread::submit(Request request, std::shared_ptr<EventSink> sink) {
  TRY(engine_->check(request));
  RequestId id{};
  {
    const MutexLock lock(mutex_);
    if (draining_) return fail(ErrorCode::kUnavailable, "the server is shutting down");
    TRY_ASSIGN(QueuePlace place, queue_.enter(request.tenant));
    id = RequestId{next_id_++};
    inbox_.push_back({id, std::move(request), std::move(sink), std::move(place)});
    is_idle_ = false;
  }
  wake_.notify_one();
  return id;
}

Result<void> EngineThread::check_room() const {
  {
    const MutexLock lock(mutex_);
    if (draining_) return fail(ErrorCode::kUnavailable, "the server is shutting down");
  }
  return queue_.check();
}

void EngineThread::cancel(RequestId id) {
  retry_until_memory_is_free(
      [&] {
        const MutexLock lock(mutex_);
        cancels_.push_back(id);
        has_cancels_ = true;
      },
      [] { return false; });
  wake_.notify_one();
}

bool EngineThread::drain(Duration at_most) {
  watchers_.end();
  const MutexLock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(mutex_, at_most, [this]() REQUIRES(mutex_) { return is_idle_; });
}

Result<void> EngineThread::watch(const std::shared_ptr<LiveSink>& sink) {
  TRY(watchers_.add(sink));
  wake();
  return {};
}

EngineSnapshot EngineThread::snapshot() const {
  const AllTierCounters tiers = engine_->tier_counters();
  const std::optional<PageLogCounts> page_log = engine_->page_log_counts();
  const MutexLock lock(mutex_);
  EngineSnapshot snapshot = snapshot_;
  if (snapshot.running_step.n_sequences > 0)
    snapshot.running_step_s = to_s(engine_->clock().now() - snapshot.running_step.begin);
  snapshot.n_waiting += static_cast<uint32_t>(inbox_.size());
  snapshot.tiers = tiers;
  snapshot.page_log = page_log;
  return snapshot;
}

const EngineLimits& EngineThread::limits() const { return engine_->limits(); }

void EngineThread::main() {
  MemoryReserve::wait_for_memory(kMemoryPatience);
  for (bool is_running = true; is_running;) {
    try {
      is_running = run_once();
    } catch (const std::bad_alloc&) {  // between two steps: running sequences are not affected
      static log::RareWarning warn;
      warn("cannot handle a message to the engine: out of memory");
    }
  }
}

uint64_t EngineThread::probe_progress() {
  const uint64_t n_signs = n_signs_.load(std::memory_order_relaxed);
  wake();
  return n_signs;
}

// Handles messages and runs a step. Returns false if the thread must stop.
bool EngineThread::run_once() {
  n_signs_.fetch_add(1, std::memory_order_relaxed);
  if (!take_messages()) return false;
  const bool worked = step();
  const EngineSnapshot snapshot = engine_->snapshot();
  const bool has_changes = worked || took_messages_;
  watchers_.show(*engine_,
                 has_changes ? LiveWatchers::Changes::kSome : LiveWatchers::Changes::kNone);
  const MutexLock lock(mutex_);
  snapshot_ = snapshot;
  is_fetching_ = !worked && engine_->is_fetching();
  is_idle_ = !worked && inbox_.empty() && !is_fetching_;
  if (is_idle_) idle_.notify_all();
  return true;
}

// Passes a request to the engine. If there is no memory for it, only this request fails.
void EngineThread::submit(Submission submission) {
  const std::shared_ptr<EventSink> sink = submission.sink;
  try {
    engine_->submit(submission.id, std::move(submission.request), std::move(submission.sink),
                    std::move(submission.place));
  } catch (const std::bad_alloc&) {
    static log::RareWarning warn;
    warn("cannot start a request: out of memory");
    try {
      sink->on_finish(FinishReason::kFailed, {});
    } catch (const std::bad_alloc&) {
      sink->on_no_memory();
    }
  }
}

// Runs a step. If there is no memory for it, the request at fault is unknown, so all requests are
// canceled.
bool EngineThread::step() {
  try {
    return engine_->step();
  } catch (const std::bad_alloc&) {
    static log::RareWarning warn;
    warn("cannot run a step: out of memory; all requests are canceled");
    cancel_all();
    return true;
  }
}

// Cancels all requests. If there is not even memory for that, answers that were not read hold it:
// their clients get no more than an error. If the thread must stop, the sequences end with the
// engine.
void EngineThread::cancel_all() {
  try {
    return engine_->cancel_all();
  } catch (const std::bad_alloc&) {
    engine_->drop_answers();
  }
  retry_until_memory_is_free([&] { engine_->cancel_all(); }, [&] { return is_stopping(); });
}

bool EngineThread::is_stopping() const {
  const MutexLock lock(mutex_);
  return stopping_;
}

void EngineThread::begin_step(const RunningStep& step, uint32_t n_running, uint32_t n_waiting) {
  const MutexLock lock(mutex_);
  snapshot_.running_step = step;
  snapshot_.n_running = n_running;
  snapshot_.n_waiting = n_waiting;
}

bool EngineThread::are_cancelled(std::span<const RequestId> ids) {
  n_signs_.fetch_add(1, std::memory_order_relaxed);
  if (!has_cancels_.load(std::memory_order_relaxed)) return false;
  const MutexLock lock(mutex_);
  if (stopping_) return true;
  for (const RequestId id : ids) {
    if (std::ranges::find(cancels_, id) == cancels_.end()) return false;
  }
  return true;
}

// Waits for work and passes the messages of the queue to the engine. Returns false if the thread
// must stop.
bool EngineThread::take_messages() {
  bool stop = false;
  const std::optional<TimePoint> view_due = watchers_.due();
  {
    const MutexLock lock(mutex_);
    const auto has_work = [this]() REQUIRES(mutex_) {
      return is_woken_ || !inbox_.empty() || !cancels_.empty() || stopping_ ||
             !(is_idle_ || is_fetching_);
    };
    if (is_fetching_) {
      // With a time limit: a tier that hangs does not wake the thread.
      wake_.wait_for(mutex_, kTierPatience, has_work);
    } else if (view_due) {
      wake_.wait_until(mutex_, *view_due, has_work);
    } else {
      wake_.wait(mutex_, has_work);
    }
    is_woken_ = is_fetching_ = false;
    std::swap(taken_, inbox_);
    std::swap(taken_cancels_, cancels_);
    has_cancels_ = stopping_;
    snapshot_.n_waiting += static_cast<uint32_t>(taken_.size());
    stop = stopping_;
  }
  took_messages_ = !taken_.empty() || !taken_cancels_.empty();
  for (Submission& s : taken_) submit(std::move(s));
  for (const RequestId id : taken_cancels_)
    retry_until_memory_is_free([&] { engine_->cancel(id); }, [&] { return is_stopping(); });
  taken_.clear();
  taken_cancels_.clear();
  if (stop) cancel_all();  // waiting clients get an error
  return !stop;
}

}  // namespace kvik
