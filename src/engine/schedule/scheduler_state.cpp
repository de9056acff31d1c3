// What the scheduler does for sequences that have a state.
#include <algorithm>

#include "engine/schedule/scheduler.h"

namespace kvik {
namespace {

bool is_of_one_text(SnapshotKind kind) {
  return kind == SnapshotKind::kBorder || kind == SnapshotKind::kEnd;
}

// Others will go on from where two did, and a text that went on will go on again.
Regard regard_of(const Sequence& sequence, SnapshotKind kind) {
  const bool goes_on = sequence.resumed && is_of_one_text(sequence.resumed->kind);
  const bool is_likely = kind == SnapshotKind::kBranch || (goes_on && is_of_one_text(kind));
  return is_likely ? Regard::kFound : Regard::kNew;
}

// Keeps the state behind all that the sequence has.
void keep_state(KvCache& kv, Sequence& sequence, SnapshotKind kind) {
  kv.seal(sequence.table, sequence.root, sequence.cached_tokens());
  if (kv.keep_state(sequence.table, sequence.root, sequence.cached_tokens(), kind,
                    regard_of(sequence, kind))) {
    sequence.n_kept = sequence.n_cached;
  }
}

}  // namespace

void Scheduler::keep_marked(Sequence& sequence) {
  if (!sequence.table.state() || !sequence.uses_cache()) return;
  if (sequence.n_cached <= sequence.n_kept) return;
  const auto mark = std::ranges::find(sequence.marks, sequence.n_cached, &SnapshotMark::n_tokens);
  if (mark != sequence.marks.end()) {
    keep_state(kv_, sequence, mark->kind);
  } else if (sequence.is_decoding() && snapshots_.keeps_within(sequence.n_cached)) {
    keep_state(kv_, sequence, SnapshotKind::kGrid);
  }
}

// Before its pages are given back: of one that will come again always.
void Scheduler::keep_end(Sequence& sequence) {
  if (!sequence.table.state() || !sequence.uses_cache()) return;
  const bool is_over = sequence.n_generated() > 0 || sequence.n_pending() == 0;
  const uint32_t n_begin = sequence.usage.prompt_tokens;
  if (!is_over && sequence.n_cached > sequence.n_kept) {
    keep_state(kv_, sequence, SnapshotKind::kGrid);
  } else if (is_over && snapshots_.keeps_end(sequence.n_cached, sequence.n_kept)) {
    keep_state(kv_, sequence, SnapshotKind::kEnd);
  }
  // Whoever goes on from here will not go on from where this one did.
  if (sequence.resumed && sequence.n_kept >= n_begin) kv_.outdate_snapshot(sequence.resumed->key);
}

// When it begins, or begins again, behind what was found.
void Scheduler::plan_marks(Sequence& sequence) {
  sequence.n_kept = sequence.n_cached;
  sequence.marks.clear();
  sequence.resumed.reset();
  if (!snapshots_.is_on() || !sequence.uses_cache()) return;
  sequence.resumed = sequence.found.snapshot();
  if (sequence.resumed) snapshots_.note_found(sequence.resumed->kind);
  std::vector<uint32_t> wanted;
  for (const Pin& pin : sequence.request.pins) wanted.push_back(pin.n_tokens);
  sequence.marks = snapshots_.marks({.n_tokens = sequence.n_tokens(),
                                     .n_found = sequence.n_cached,
                                     .n_known = sequence.found.n_known(),
                                     .borders = sequence.request.borders,
                                     .wanted = wanted});
}

// Whether one that runs is still computing what this one shares with it, and more than is found:
// it keeps its state behind the last page that they share, which is found as soon as it is full.
bool Scheduler::waits_for_state(Sequence& sequence) {
  const auto tokens = sequence.findable_tokens();
  if (!snapshots_.is_on() || tokens.empty()) return false;
  const KnownBy reader = mark_of(sequence);
  for (const auto& other : running_) {
    if (other->is_decoding() || !other->uses_cache() || other->root != sequence.root) continue;
    if (!may_find(reader, mark_of(*other))) continue;
    const auto theirs = std::span(other->tokens).first(other->n_tokens() - 1);
    const uint32_t n_shared = common_prefix(theirs, tokens) / kPageTokens * kPageTokens;
    if (n_shared < sequence.found.n_tokens() + SnapshotPolicy::kLeastShared) continue;
    if (n_shared <= other->n_cached) continue;
    const auto place =
        std::ranges::lower_bound(other->marks, n_shared, {}, &SnapshotMark::n_tokens);
    if (place != other->marks.end() && place->n_tokens == n_shared) {
      place->kind = SnapshotKind::kBranch;
    } else {
      other->marks.insert(place, {n_shared, SnapshotKind::kBranch});
    }
    return true;
  }
  return false;
}

}  // namespace kvik
