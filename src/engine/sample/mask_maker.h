#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/process/processor_budget.h"
#include "engine/sample/next_tokens.h"

namespace kvik {

// Does the work of constraints: appends tokens, finds forced tokens, makes masks. Small parts run
// on the engine thread, or on a thread of their own during the forward pass. Larger parts run one
// after the other on a second thread of low priority, within the budget of their tenant. Their
// sequences skip steps until then; other sequences do not wait. The bits of an answer do not depend
// on which thread does the work, or when.
//
//   advance() ──small──▶ known                    begin() ──small──▶ ready by finish(), or later
//       └──large──▶ queue of the second thread ──▶ ready     └──large──▶ the same queue
//
// Engine thread only, except for its own two threads, which start with the first mask.
class MaskMaker {
 public:
  MaskMaker() = default;
  ~MaskMaker();
  MaskMaker(const MaskMaker&) = delete;
  MaskMaker& operator=(const MaskMaker&) = delete;

  // kOn: several tenants have requests. Each tenant then has a budget of processor time, and the
  // engine thread helps for at most a quarter of `forward`, the time of the last forward pass.
  // kOff: there are no budgets, and it helps for up to kMaxHelp.
  enum class Budgets : uint8_t { kOff, kOn };
  void begin_step(Budgets budgets, Duration forward = {});

  // Appends the newest token to the constraint. knows_end() is true afterward unless the work was
  // queued.
  void advance(NextTokens& next);
  // Starts to make the mask of the next token.
  void begin(NextTokens& next);
  // Helps with the queued small jobs for the rest of the step's help time.
  void finish();
  // Makes the mask immediately if that takes little time. Returns is_ready().
  bool make_now(NextTokens& next);

  // Does the queued small jobs, then waits until the second thread has finished a job, nothing is
  // left to do, or at_most has passed.
  void wait(Duration at_most);

  // Returns the number of jobs that the second thread has finished.
  uint64_t n_heavy() const;

  // Bounds of the help in each step.
  static constexpr Duration kMinHelp = std::chrono::microseconds(50);
  static constexpr Duration kMaxHelp = std::chrono::milliseconds(1);
  // Budget of each tenant.
  static constexpr ProcessorBudget::Rule kBudget = {.share = 0.25,
                                                    .burst = std::chrono::milliseconds(250)};

 private:
  using Job = std::shared_ptr<MaskJob>;
  enum class Lane : uint8_t { kSmall, kHeavy };

  Lane lane_of(const MaskJob& job);
  template <class Part>
  void do_or_queue(const Job& job, const Part& part);
  void queue(const Job& job, Lane lane);
  void start_threads();
  void put(const Job& job, Lane lane) REQUIRES(mutex_);
  void charge(const MaskJob& job, Duration time) REQUIRES(mutex_);
  void do_next_small() REQUIRES(mutex_);
  void main_small();
  void main_heavy();
  Job take_heavy() REQUIRES(mutex_);

  Duration may_help_ = kMaxHelp;  // help of the engine thread in this step
  Duration helped_{};
  std::thread small_thread_, heavy_thread_;

  mutable Mutex mutex_;
  CondVar small_added_, heavy_added_, done_;
  std::deque<Job> small_ GUARDED_BY(mutex_);
  std::deque<Job> heavy_ GUARDED_BY(mutex_);
  ProcessorBudget budget_ GUARDED_BY(mutex_){kBudget};
  Budgets budgets_ GUARDED_BY(mutex_) = Budgets::kOff;
  bool is_small_busy_ GUARDED_BY(mutex_) = false;
  bool is_heavy_busy_ GUARDED_BY(mutex_) = false;
  bool has_heavy_thread_ GUARDED_BY(mutex_) = false;
  bool is_stopping_ GUARDED_BY(mutex_) = false;
  uint64_t n_heavy_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvik
