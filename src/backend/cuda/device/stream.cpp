#include "backend/cuda/device/stream.h"

#include "base/check.h"

namespace kvik::cuda {

void Stream::begin_step() {
  require(submit_deferred());
  tables_.begin_step();
  n_submitted_lists_ = 0;
  thread_ = std::this_thread::get_id();
}

void Stream::abandon_step() {
  held_.clear();
  thread_ = std::thread::id();
}

Result<void> Stream::launch(const Launch& launch) {
  if (thread_.load() == std::this_thread::get_id()) {
    held_.add(launch);
    return {};
  }
  TRY(tables_.bring());
  return device_.start(launch);
}

Result<void> Stream::submit_deferred() {
  if (thread_.load() != std::this_thread::get_id() || held_.size() == 0) return {};
  TRY(tables_.bring());
  TRY(graphs_.run(held_, n_submitted_lists_++));
  held_.clear();
  return {};
}

Result<void> Stream::wait() {
  TRY(submit_deferred());
  CHECK(held_.size() == 0);  // otherwise another thread began the step
  thread_ = std::thread::id();
  TRY(device_.wait());
  if (tables_.n_lists() > kMaxLists) tables_.begin_step();
  return {};
}

}  // namespace kvik::cuda
