#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

const StepPlan& Scheduler::plan() {
  plan_.entries.clear();
  tokens_left_ = options_.max_step_tokens;
  admit();
  plan_decodes();
  plan_prompts();
  return plan_;
}

// Takes waiting sequences in their order; the first that does not fit holds up those behind it.
void Scheduler::admit() {
  while (!waiting_.empty() && running_.size() < options_.max_running) {
    Sequence& sequence = *waiting_.front();
    const uint64_t wanted = KvCache::pages_for(sequence.n_tokens());
    const bool room_to_grow = running_.empty() || kv_.counts().free > wanted;
    if (!room_to_grow || !kv_.grow(sequence.table, sequence.n_tokens())) return;
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

void Scheduler::plan_decodes() {
  // By index: a preemption takes sequences from the back while this walks from the front.
  for (size_t i = 0; i < running_.size() && tokens_left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (!sequence.is_decoding()) continue;
    if (!grow_or_preempt(sequence, sequence.n_tokens())) return;
    plan_.entries.push_back({&sequence, 1});
    --tokens_left_;
  }
}

void Scheduler::plan_prompts() {
  for (size_t i = 0; i < running_.size() && tokens_left_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.is_decoding()) continue;
    if (!grow_or_preempt(sequence, sequence.n_tokens())) return;
    const uint32_t n = std::min({sequence.n_pending(), tokens_left_, sequence.request.max_chunk});
    plan_.entries.push_back({&sequence, n});
    tokens_left_ -= n;
  }
}

// Makes room for n_tokens by preempting from the youngest on. False where `sequence` itself had to
// go: it was the youngest left.
bool Scheduler::grow_or_preempt(Sequence& sequence, uint32_t n_tokens) {
  while (!kv_.grow(sequence.table, n_tokens)) {
    Sequence* victim = running_.back().get();
    const bool is_itself = victim == &sequence;
    // What could not finish alone was refused at submission.
    CHECK(!is_itself || running_.size() > 1);
    std::erase_if(plan_.entries, [&](const auto& entry) { return entry.sequence == victim; });
    victim->forget();
    waiting_.push_front(std::move(running_.back()));
    running_.pop_back();
    ++n_preemptions_;
    if (is_itself) return false;
  }
  return true;
}

Sequence* Scheduler::find(RequestId id) {
  for (const auto& sequence : running_) {
    if (sequence->id == id) return sequence.get();
  }
  for (const auto& sequence : waiting_) {
    if (sequence->id == id) return sequence.get();
  }
  return nullptr;
}

Sequence* Scheduler::any() {
  if (!running_.empty()) return running_.front().get();
  return waiting_.empty() ? nullptr : waiting_.front().get();
}

void Scheduler::remove(const Sequence& sequence) {
  const auto is_it = [&](const auto& candidate) { return candidate.get() == &sequence; };
  if (std::erase_if(running_, is_it) == 0) std::erase_if(waiting_, is_it);
}

}  // namespace kvik
