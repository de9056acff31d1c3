#include "engine/schedule/preemption.h"

#include "base/check.h"

namespace kvik {

Preemption::Preemption(const Context& context)
    : kv_(context.kv),
      running_(context.running),
      queue_(context.queue),
      snapshots_(context.snapshots),
      speculator_(context.speculator),
      reuse_(context.reuse) {}

void Preemption::grow_all() {
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!grow_or_preempt(*running_.all()[i])) return;
  }
}

// Returns false if `sequence` itself, as the last one, was preempted.
bool Preemption::grow_or_preempt(Sequence& sequence) {
  while (!kv_.grow(sequence.table, sequence.n_tokens())) {
    // A sequence that cannot finish alone was rejected at submission.
    CHECK(running_.size() > 1);
    const bool is_itself = running_.all().back().get() == &sequence;
    preempt_last();
    if (is_itself) return false;
  }
  return true;
}

void Preemption::preempt_last() {
  Sequence& last = *running_.all().back();
  reuse_.note_preemption(last);
  speculator_.release(last);
  snapshots_.keep_for_resumption(last);
  close(last);
  ++n_preemptions_;
  queue_.put_back(running_.take_last());
}

void Preemption::release(Sequence& sequence) {
  speculator_.release(sequence);
  snapshots_.keep_end(sequence);
  close(sequence);
}

void Preemption::close(Sequence& sequence) {
  sequence.load.reset();
  if (sequence.uses_cache()) kv_.close(sequence.table, sequence.cached_tokens());
  sequence.table.clear();
  sequence.n_cached = 0;
  sequence.held_logits = {};  // its row will be computed again
}

}  // namespace kvik
