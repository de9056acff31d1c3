#include "engine/sample/mask_maker.h"

#include <utility>

#include "base/process/thread.h"

namespace kvik {

MaskMaker::~MaskMaker() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void MaskMaker::begin(std::span<const Job> jobs) {
  jobs_.assign(jobs.begin(), jobs.end());
  next_job_.store(0, std::memory_order_relaxed);
  if (jobs_.empty()) return;
  if (!thread_.joinable()) {
    auto thread = start_thread("kvik-masks", [this] { main(); });
    if (!thread) return;  // there are no more: finish() makes all masks
    thread_ = std::move(*thread);
  }
  const MutexLock lock(mutex_);
  has_work_ = true;
  changed_.notify_all();
}

// Where the thread has not had its turn, its owner does not wait for that.
void MaskMaker::finish() {
  if (jobs_.empty()) return;
  work();
  const MutexLock lock(mutex_);
  has_work_ = false;
  changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return !is_busy_; });
  jobs_.clear();
}

void MaskMaker::work() {
  for (;;) {
    const size_t job = next_job_.fetch_add(1, std::memory_order_relaxed);
    if (job >= jobs_.size()) return;
    jobs_[job].constraint->fill_mask(jobs_[job].mask);
  }
}

void MaskMaker::main() {
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_, [this]() REQUIRES(mutex_) { return has_work_ || is_stopping_; });
    if (is_stopping_) return;
    has_work_ = false;
    is_busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace kvik
