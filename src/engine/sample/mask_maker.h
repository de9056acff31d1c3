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

// Does the work of constraints: takes tokens, finds what must follow, makes masks. Parts that take
// little are done by the engine's thread, or by a thread of their own while the forward pass runs.
// Parts that take more go to a second thread of low priority, one after the other, within the
// budget of their tenant; their sequences sit steps out until then, and no other sequence waits.
// Which thread does the work, and when, changes no bit of an answer.
//
//   advance() ──small──▶ known                    begin() ──small──▶ ready by finish(), or later
//       └──more──▶ queue of the second thread ──▶ ready      └──more──▶ the same queue
//
// Engine thread only, but for the two threads that it owns, which start with the first mask.
class MaskMaker {
 public:
  MaskMaker() = default;
  ~MaskMaker();
  MaskMaker(const MaskMaker&) = delete;
  MaskMaker& operator=(const MaskMaker&) = delete;

  // Only beside other tenants, a tenant has a budget, to which its work is charged, and the
  // engine's thread helps for a quarter of what a forward pass takes (`forward`: of the last step).
  enum class Budgets : uint8_t { kOff, kOn };
  void begin_step(Budgets budgets, Duration forward = {});

  // Takes the newest token: knows_end() afterwards, unless that takes more.
  void advance(NextTokens& next);
  // Begins to make the mask of the next token.
  void begin(NextTokens& next);
  // Helps with what was begun, for what is left of the step's help.
  void finish();
  // Makes the mask at once where that takes little. Returns is_ready().
  bool make_now(NextTokens& next);

  // Waits until the second thread has done something, or until the time is over.
  void wait(Duration at_most);

  // Parts that the second thread did so far.
  uint64_t n_heavy() const;

  // Bounds of the help in each step.
  static constexpr Duration kLeastHelp = std::chrono::microseconds(50);
  static constexpr Duration kMostHelp = std::chrono::milliseconds(1);
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

  Duration may_help_ = kMostHelp;  // in this step, the engine's thread
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
