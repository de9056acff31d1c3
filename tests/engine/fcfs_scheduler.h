#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/schedule/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"

namespace kvik {

// A first-come-first-served scheduler for comparison. It computes prompts in the order of their
// arrival, each step up to its limit of tokens, and decodes only if no prompt is pending.
class FcfsScheduler {
 public:
  FcfsScheduler(KvCache& kv, const SchedulerOptions& options) : kv_(kv), options_(options) {}

  void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }

  const StepPlan& plan() {
    plan_.clear();
    while (!waiting_.empty() && running_.size() < options_.max_running && admit()) {
    }
    uint32_t tokens_left = options_.max_step_tokens;
    for (const auto& sequence : running_) {
      if (sequence->is_decoding() || tokens_left == 0) continue;
      const uint32_t n = std::min(sequence->n_pending(), tokens_left);
      plan_.add(*sequence, n);
      tokens_left -= n;
    }
    if (plan_.empty()) plan_decodes();
    return plan_;
  }
  void observe(Duration) {}
  void commit(const StepPlan& plan, std::span<const uint32_t> accepted) {
    n_prompt_tokens_ += commit_rows(kv_, plan, accepted);
  }
  void append(Sequence& sequence, TokenId token) { sequence.tokens.push_back(token); }

  void remove(Sequence& sequence) {
    kv_.close(sequence.table, sequence.cached_tokens());
    std::erase_if(running_, [&](const auto& other) { return other.get() == &sequence; });
  }

  uint32_t n_waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t n_running() const { return static_cast<uint32_t>(running_.size()); }
  uint64_t n_preemptions() const { return n_preemptions_; }
  uint64_t n_prompt_tokens() const { return n_prompt_tokens_; }
  uint64_t n_found_tokens() const { return n_found_tokens_; }

 private:
  bool admit() {
    Sequence& sequence = *waiting_.front();
    FoundPrefix found;
    const uint64_t n_spare = running_.empty() ? 0 : 1;
    if (!kv_.open(sequence.table, sequence.query(), found, sequence.n_tokens(), n_spare)) {
      return false;
    }
    if (sequence.n_generated() == 0) n_found_tokens_ += found.n_tokens();
    sequence.n_cached = found.n_tokens();
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    return true;
  }

  void plan_decodes() {
    for (size_t i = 0; i < running_.size(); ++i) {
      while (!kv_.grow(running_[i]->table, running_[i]->n_tokens())) {
        const bool is_itself = i + 1 == running_.size();
        preempt_last();
        if (is_itself) return;
      }
      plan_.add(*running_[i], 1);
    }
  }

  void preempt_last() {
    Sequence& last = *running_.back();
    kv_.close(last.table, last.cached_tokens());
    last.n_cached = 0;
    ++n_preemptions_;
    waiting_.push_front(std::move(running_.back()));
    running_.pop_back();
  }

  KvCache& kv_;
  SchedulerOptions options_;
  StepPlan plan_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // oldest first
  uint64_t n_preemptions_ = 0;
  uint64_t n_prompt_tokens_ = 0;
  uint64_t n_found_tokens_ = 0;
};

}  // namespace kvik
