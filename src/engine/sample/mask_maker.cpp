#include "engine/sample/mask_maker.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/process/thread.h"

namespace kvik {
namespace {

using Effort = Constraint::Effort;

// A job that took longer goes to the heavy queue again.
constexpr Duration kHeavy = std::chrono::milliseconds(1);
// Wait until a tenant has budget again.
constexpr Duration kLookAgain = std::chrono::milliseconds(20);

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

MaskMaker::~MaskMaker() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    small_added_.notify_all();
    heavy_added_.notify_all();
  }
  join_if_started(small_thread_);
  join_if_started(heavy_thread_);
}

void MaskMaker::begin_step(Budgets budgets, Duration forward) {
  may_help_ = budgets == Budgets::kOff ? kMaxHelp : std::clamp(forward / 4, kMinHelp, kMaxHelp);
  helped_ = {};
  const MutexLock lock(mutex_);
  budgets_ = budgets;
}

// Chooses the queue of a job. The cost of a token is unknown before the work is done, so the
// tenant's recent costs are the estimate.
MaskMaker::Lane MaskMaker::lane_of(const MaskJob& job) {
  if (job.was_heavy) return Lane::kHeavy;
  const MutexLock lock(mutex_);
  if (budgets_ == Budgets::kOff) return Lane::kSmall;
  const bool is_light =
      budget_.recent_cost(job.tenant) <= may_help_ && budget_.left(job.tenant, now()) > Duration{};
  return is_light ? Lane::kSmall : Lane::kHeavy;
}

// Does a part on the engine thread if it is small and the step has time left for it. Otherwise puts
// the job into a queue.
template <class Part>
void MaskMaker::do_or_queue(const Job& job, const Part& part) {
  const Lane lane = lane_of(*job);
  if (lane == Lane::kHeavy || helped_ >= may_help_) return queue(job, lane);
  const Duration begin = thread_time();
  const bool is_done = part();
  const Duration took = thread_time() - begin;
  helped_ += took;
  {
    const MutexLock lock(mutex_);
    charge(*job, took);
  }
  if (!is_done) queue(job, Lane::kHeavy);
}

void MaskMaker::advance(NextTokens& next) {
  const Job& job = next.job();
  if (next.is_queued() || job->is_done() || job->is_advanced) return;
  do_or_queue(job, [&] { return job->advance(Effort::kSmall); });
}

void MaskMaker::begin(NextTokens& next) {
  advance(next);
  if (next.is_queued() || next.is_ready()) return;
  queue(next.job(), lane_of(*next.job()));
}

bool MaskMaker::make_now(NextTokens& next) {
  advance(next);
  if (next.is_queued() || next.is_ready()) return next.is_ready();
  const Job& job = next.job();
  do_or_queue(job, [&] { return job->make_mask(Effort::kSmall); });
  return next.is_ready();
}

void MaskMaker::queue(const Job& job, Lane lane) {
  start_threads();
  const MutexLock lock(mutex_);
  has_heavy_thread_ = heavy_thread_.joinable();
  put(job, lane);
}

// Puts the job into a queue. If there is no memory or no thread for it, the answer fails.
void MaskMaker::put(const Job& job, Lane lane) {
  const auto fail_job = [&] {
    job->failure = MaskJob::Failure::kNoMemory;
    job->is_queued.store(false, std::memory_order_release);
  };
  if (lane == Lane::kHeavy && !has_heavy_thread_) return fail_job();
  try {
    job->is_queued = true;
    (lane == Lane::kSmall ? small_ : heavy_).push_back(job);
  } catch (const std::bad_alloc&) {
    return fail_job();
  }
  (lane == Lane::kSmall ? small_added_ : heavy_added_).notify_one();
}

void MaskMaker::charge(const MaskJob& job, Duration time) {
  if (budgets_ == Budgets::kOff) return;
  try {
    budget_.charge(job.tenant, time, now());
  } catch (const std::bad_alloc&) {  // this work is not charged
  }
}

// Starts the threads that do not run yet. If the system refuses one, the next call tries again;
// finish() does the small jobs meanwhile.
void MaskMaker::start_threads() {
  const auto start = [](std::thread& thread, const char* name, std::function<void()> main) {
    if (thread.joinable()) return;
    auto started = start_thread(name, std::move(main));
    if (started) thread = std::move(*started);
  };
  start(small_thread_, "kvik-masks", [this] { main_small(); });
  start(heavy_thread_, "kvik-masks-slow", [this] { main_heavy(); });
}

void MaskMaker::do_next_small() {
  const Job job = std::move(small_.front());
  small_.pop_front();
  mutex_.unlock();
  bool is_done = true;
  const Duration begin = thread_time();
  if (!job->is_abandoned) {
    is_done = job->advance(Effort::kSmall) && job->make_mask(Effort::kSmall);
  }
  const Duration took = thread_time() - begin;
  mutex_.lock();
  charge(*job, took);
  if (!is_done) return put(job, Lane::kHeavy);
  job->is_queued.store(false, std::memory_order_release);
}

// Also waits for the mask that the other thread is making: it takes little time if that thread has
// a core.
void MaskMaker::finish() {
  const TimePoint end = now() + may_help_ - std::min(helped_, may_help_);
  const MutexLock lock(mutex_);
  while (!small_.empty() && now() < end) do_next_small();
  done_.wait_until(mutex_, end,
                   [this]() REQUIRES(mutex_) { return small_.empty() && !is_small_busy_; });
}

void MaskMaker::main_small() {
  MutexLock lock(mutex_);
  for (;;) {
    small_added_.wait(mutex_,
                      [this]() REQUIRES(mutex_) { return !small_.empty() || is_stopping_; });
    if (is_stopping_) return;
    is_small_busy_ = true;
    do_next_small();
    is_small_busy_ = false;
    if (small_.empty()) done_.notify_all();
  }
}

// Removes and returns the job of the tenant with the largest remaining budget, or null if all have
// exceeded theirs.
MaskMaker::Job MaskMaker::take_heavy() {
  std::erase_if(heavy_, [](const Job& job) { return job->is_abandoned.load(); });
  const TimePoint at = now();
  const auto left = [&](const Job& job) REQUIRES(mutex_) { return budget_.left(job->tenant, at); };
  auto best = heavy_.begin();
  for (auto it = heavy_.begin(); it != heavy_.end(); ++it) {
    if (left(*it) > left(*best)) best = it;
  }
  if (best == heavy_.end()) return nullptr;
  if (budgets_ == Budgets::kOn && left(*best) <= Duration{}) return nullptr;
  Job job = std::move(*best);
  heavy_.erase(best);
  return job;
}

void MaskMaker::main_heavy() {
  lower_thread_priority();
  MutexLock lock(mutex_);
  for (;;) {
    if (heavy_.empty()) {
      heavy_added_.wait(mutex_,
                        [this]() REQUIRES(mutex_) { return !heavy_.empty() || is_stopping_; });
    }
    if (is_stopping_) return;
    const Job job = take_heavy();
    if (!job) {
      heavy_added_.wait_for(mutex_, kLookAgain, [this]() REQUIRES(mutex_) { return is_stopping_; });
      continue;
    }
    is_heavy_busy_ = true;
    lock.unlock();
    const Duration begin = thread_time();
    static_cast<void>(job->advance(Effort::kFull) && job->make_mask(Effort::kFull));
    const Duration took = thread_time() - begin;
    job->was_heavy = took > kHeavy;
    lock.lock();
    ++n_heavy_;
    is_heavy_busy_ = false;
    charge(*job, took);
    job->is_queued.store(false, std::memory_order_release);
    done_.notify_all();
  }
}

void MaskMaker::wait(Duration at_most) {
  const MutexLock lock(mutex_);
  while (!small_.empty()) do_next_small();
  const uint64_t n_before = n_heavy_;
  done_.wait_for(mutex_, at_most, [&]() REQUIRES(mutex_) {
    const bool is_idle = heavy_.empty() && !is_heavy_busy_ && small_.empty() && !is_small_busy_;
    return n_heavy_ != n_before || is_idle;
  });
}

uint64_t MaskMaker::n_heavy() const {
  const MutexLock lock(mutex_);
  return n_heavy_;
}

}  // namespace kvik
