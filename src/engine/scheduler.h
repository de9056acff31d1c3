#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"

namespace kvik {

struct SchedulerOptions {
  uint32_t max_step_tokens = 512;
  uint32_t max_running = 64;
};

// Decides what each step computes. Decode first: every sequence that has its prompt computed gets
// its next token; then prompts, in the order they came, fill the rest of the step's tokens.
//
// A page that an older sequence is about to compute is waited for, not computed a second time;
// where the older one ends early, the next in line computes it.
//
// A sequence is admitted when pages for its whole prompt and one more are free. Where a running one
// cannot grow, the youngest gives all its pages back and waits at the front of the queue; the
// oldest always advances, so every sequence ends. Engine thread only.
class Scheduler {
 public:
  Scheduler(KvCache& kv, const SchedulerOptions& options) : kv_(kv), options_(options) {}

  void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }

  // The sequences of the next step, each with pages for its new tokens. Empty: nothing to do.
  const StepPlan& plan();

  Sequence* find(RequestId id);
  Sequence* any();  // null where there is none
  // Takes a finished sequence out; nobody leases its pages when this returns.
  void remove(Sequence& sequence);

  uint32_t n_waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t n_running() const { return static_cast<uint32_t>(running_.size()); }
  uint64_t n_preemptions() const { return n_preemptions_; }
  uint64_t n_found_tokens() const { return n_found_tokens_; }

 private:
  void admit();
  bool admit_next();
  void let_go(Sequence& sequence);
  void count_found(Sequence& sequence, uint32_t n_cached);
  void adopt(Sequence& sequence);
  void adopt_filling_page(Sequence& sequence, std::span<const TokenId> tokens);
  bool is_computed_by_an_older(const Sequence& sequence) const;
  void plan_decodes();
  void plan_prompts();
  bool grow_or_preempt(Sequence& sequence, uint32_t n_tokens);

  KvCache& kv_;
  SchedulerOptions options_;
  StepPlan plan_;
  uint32_t tokens_left_ = 0;  // of the step being planned
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // oldest first
  uint64_t n_preemptions_ = 0;
  uint64_t n_found_tokens_ = 0;  // of prompts, in the cache
};

}  // namespace kvik
