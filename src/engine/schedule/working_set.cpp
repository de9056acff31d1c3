#include "engine/schedule/working_set.h"

#include <algorithm>

namespace kvik {
namespace {

constexpr double kOverdueAfter = 10;  // times the time to compute the whole prompt

// Part of the pages that a new conversation leaves to the growth of the others. In simulations of
// agents a sixth lets too many in, and a quarter holds some that would fit.
constexpr uint64_t kGrowthPart = 5;

using Hold = QueueState::Hold;

// Returns whether the prompt continues a conversation of which all pages are cached.
bool is_resident(const Sequence& sequence) {
  const FoundPrefix& found = sequence.queue.found;
  return found.continues_conversation() && !found.was_evicted();
}

}  // namespace

void WorkingSet::note_arrival(const FoundPrefix& found) {
  const auto pause = kv_.idle_time(found);
  if (!pause && found.was_evicted()) return;  // it continues one, but the pause is unknown
  returns_.observe(pause);
}

void WorkingSet::choose_held(std::span<const std::unique_ptr<Sequence>> waiting) {
  for (const auto& sequence : waiting) sequence->queue.hold = Hold::kNone;
  const auto pause = returns_.usual_pause();
  if (!pause || waiting.empty() || running_.empty()) return;
  const TimePoint now = kv_.pages().now();
  n_unused_ = kv_.pages().n_unused_since(now - *pause);
  Sequence* longest = nullptr;
  const auto hold = [&](Sequence& sequence) {
    sequence.queue.hold = Hold::kHeld;
    if (!longest || sequence.queue.place.since < longest->queue.place.since) longest = &sequence;
  };
  for (const auto& sequence : waiting) sequence->tenant->has_held = false;
  // Conversations that were evicted take their pages first.
  for (const auto& sequence : waiting) {
    if (!may_hold(*sequence) || !sequence->queue.found.was_evicted()) continue;
    const uint64_t n_new = n_new_pages(*sequence);
    if (n_new <= n_unused_) {
      n_unused_ -= n_new;
    } else {
      hold(*sequence);
      sequence->tenant->has_held = true;
    }
  }
  const uint64_t n_growth = kv_.n_token_pages() / kGrowthPart;
  for (const auto& sequence : waiting) {
    if (!may_hold(*sequence) || sequence->queue.found.was_evicted()) continue;
    if (sequence->tenant->has_held || n_new_pages(*sequence) + n_growth > n_unused_) {
      hold(*sequence);
    }
  }
  if (longest && now >= std::max(last_overdue_, longest->submitted) + time_between(*longest)) {
    longest->queue.hold = Hold::kOverdue;
  }
}

void WorkingSet::note_admitted(const Sequence& sequence) {
  if (sequence.queue.hold == Hold::kOverdue) last_overdue_ = kv_.pages().now();
}

bool WorkingSet::may_hold(const Sequence& sequence) const {
  return sequence.tenant->n_running > 0 && !sequence.queue.was_preempted &&
         !is_resident(sequence) &&
         running_.all().front()->priority_among_all() <= sequence.priority_among_all();
}

uint64_t WorkingSet::n_new_pages(const Sequence& sequence) const {
  const KvLayout& layout = kv_.layout();
  const uint64_t n = pages_at_once(layout, sequence.n_tokens());
  return n - std::min(n, pages_at_once(layout, sequence.queue.found.n_whole_tokens()));
}

Duration WorkingSet::time_between(const Sequence& overdue) const {
  return from_ms(kOverdueAfter * costs_.prompt_ms(0, overdue.n_tokens(), overdue.n_tokens()));
}

}  // namespace kvik
