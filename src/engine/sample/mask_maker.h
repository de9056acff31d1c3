#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "engine/sample/constraint.h"

namespace kvik {

// Makes the masks of a step while its forward pass runs. A mask is the same whoever makes it, so
// the thread moves no bit of an answer.
//
// One owner: begin(), then finish(), in turn. The thread starts with the first mask.
class MaskMaker {
 public:
  struct Job {
    Constraint* constraint;
    std::span<uint64_t> mask;
  };

  MaskMaker() = default;
  ~MaskMaker();
  MaskMaker(const MaskMaker&) = delete;
  MaskMaker& operator=(const MaskMaker&) = delete;

  // Borrows the constraints and masks until finish() has returned.
  void begin(std::span<const Job> jobs);
  // Makes what is still to be made; then all masks are there.
  void finish();

 private:
  void main();
  void work();

  std::vector<Job> jobs_;  // written between finish() and begin() alone
  std::atomic<size_t> next_job_{0};
  Mutex mutex_;
  CondVar changed_;
  bool has_work_ GUARDED_BY(mutex_) = false;
  bool is_busy_ GUARDED_BY(mutex_) = false;  // the thread looks at jobs_
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace kvik
