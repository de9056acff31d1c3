#include "engine/engine_thread.h"

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

// Repeats `end`, which ends sequences, until it has enough memory or the thread must stop: then
// they end with the engine. The sequences that end release theirs, so each attempt gets further.
template <class End>
void retry_until_memory_is_free(const RequestInbox& inbox, const End& end) {
  for (;;) {
    try {
      return end();
    } catch (const std::bad_alloc&) {
      if (inbox.is_stopping()) return;
      std::this_thread::sleep_for(kMemoryPause);
    }
  }
}

}  // namespace

EngineThread::EngineThread(std::unique_ptr<Engine> engine)
    : inbox_(engine->limits().max_queue, engine->limits().n_tenants, engine->clock()),
      engine_(std::move(engine)) {
  inbox_.publish(engine_->snapshot(), false);
  engine_->set_wake([this] { inbox_.wake(); });
  engine_->set_step_hooks(
      {.on_begin = [this](const RunningStep& step, uint32_t n_running,
                          uint32_t n_waiting) { inbox_.begin_step(step, n_running, n_waiting); },
       .are_cancelled =
           [this](std::span<const RequestId> ids) { return inbox_.are_cancelled(ids); }});
  auto thread = start_thread("kvik-engine", [this] { main(); });
  if (thread) {
    thread_ = std::move(*thread);
  } else {
    started_ = std::unexpected<Error>(thread.error());
  }
}

EngineThread::~EngineThread() {
  inbox_.stop();
  join_if_started(thread_);
  engine_->set_wake(nullptr);
}

Result<RequestId> EngineThread::submit(Request request, std::shared_ptr<EventSink> sink) {
  TRY(engine_->check(request));
  return inbox_.submit(std::move(request), std::move(sink));
}

Result<void> EngineThread::check_room() const { return inbox_.check_room(); }

void EngineThread::cancel(RequestId id) { inbox_.cancel(id); }

bool EngineThread::drain(Duration at_most) {
  watchers_.end();
  return inbox_.drain(at_most);
}

Result<void> EngineThread::watch(const std::shared_ptr<LiveSink>& sink) {
  TRY(watchers_.add(sink));
  inbox_.wake();
  return {};
}

EngineSnapshot EngineThread::snapshot() const {
  EngineSnapshot snapshot = inbox_.snapshot();
  snapshot.tiers = engine_->tier_counters();
  snapshot.page_log = engine_->page_log_counts();
  return snapshot;
}

const EngineLimits& EngineThread::limits() const { return engine_->limits(); }

uint64_t EngineThread::probe_progress() { return inbox_.probe_progress(); }

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

// Handles messages and runs a step. Returns false if the thread must stop.
bool EngineThread::run_once() {
  if (!take_messages()) return false;
  has_work_ = true;  // as long as nothing else is known
  const bool worked = step();
  const EngineSnapshot snapshot = engine_->snapshot();
  const bool has_changes = worked || !messages_.empty();
  watchers_.show(*engine_,
                 has_changes ? LiveWatchers::Changes::kSome : LiveWatchers::Changes::kNone);
  inbox_.publish(snapshot, worked || engine_->is_fetching());
  has_work_ = worked;
  return true;
}

// Waits for work and passes the messages to the engine. Returns false if the thread must stop.
bool EngineThread::take_messages() {
  const bool continues = inbox_.take(messages_, end_of_wait());
  for (QueuedRequest& queued : messages_.requests) submit(std::move(queued));
  for (const RequestId id : messages_.cancels)
    retry_until_memory_is_free(inbox_, [&] { engine_->cancel(id); });
  if (!continues) cancel_all();  // waiting clients get an error
  return continues;
}

TimePoint EngineThread::end_of_wait() const {
  if (has_work_) return TimePoint::min();
  // With a time limit: a tier that hangs does not wake the thread.
  if (engine_->is_fetching()) return std::chrono::steady_clock::now() + kTierPatience;
  return watchers_.due().value_or(TimePoint::max());
}

// Passes a request to the engine. If there is no memory for it, only this request fails.
void EngineThread::submit(QueuedRequest queued) {
  const std::shared_ptr<EventSink> sink = queued.sink;
  try {
    engine_->submit(std::move(queued));
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
// their clients get no more than an error.
void EngineThread::cancel_all() {
  try {
    return engine_->cancel_all();
  } catch (const std::bad_alloc&) {
    engine_->drop_answers();
  }
  retry_until_memory_is_free(inbox_, [&] { engine_->cancel_all(); });
}

}  // namespace kvik
