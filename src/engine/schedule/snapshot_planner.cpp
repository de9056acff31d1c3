#include "engine/schedule/snapshot_planner.h"

#include <algorithm>
#include <vector>

namespace kvik {
namespace {

bool is_of_one_text(SnapshotKind kind) {
  return kind == SnapshotKind::kBorder || kind == SnapshotKind::kEnd;
}

// A third prompt is likely to diverge where two did, and a conversation that was continued once is
// likely to be continued again.
EvictionRank regard_of(const Sequence& sequence, SnapshotKind kind) {
  const auto& resumed = sequence.snapshots.resumed;
  const bool goes_on = resumed && is_of_one_text(resumed->kind);
  const bool is_likely = kind == SnapshotKind::kBranch || (goes_on && is_of_one_text(kind));
  return is_likely ? EvictionRank::kFound : EvictionRank::kNew;
}

}  // namespace

void SnapshotPlanner::keep(Sequence& sequence, SnapshotKind kind) {
  kv_.seal(sequence.table, sequence.cached_tokens());
  if (kv_.snapshots().keep(sequence.table, sequence.cached_tokens(), kind,
                           regard_of(sequence, kind))) {
    sequence.snapshots.n_kept = sequence.n_cached;
  }
}

void SnapshotPlanner::keep_marked(Sequence& sequence) {
  if (!sequence.table.state() || !sequence.uses_cache()) return;
  const SnapshotState& state = sequence.snapshots;
  if (sequence.n_cached <= state.n_kept) return;
  const auto mark = std::ranges::find(state.marks, sequence.n_cached, &SnapshotMark::n_tokens);
  if (mark != state.marks.end()) {
    keep(sequence, mark->kind);
  } else if (sequence.is_decoding() && policy_.keeps_within(sequence.n_cached)) {
    keep(sequence, SnapshotKind::kGrid);
  }
}

// The state of a sequence that was cancelled in its prompt is kept regardless of the policy: the
// client may send the prompt again.
void SnapshotPlanner::keep_end(Sequence& sequence) {
  if (!sequence.table.state() || !sequence.uses_cache()) return;
  const SnapshotState& state = sequence.snapshots;
  const bool is_over = sequence.n_generated() > 0 || sequence.n_pending() == 0;
  if (!is_over && sequence.n_cached > state.n_kept) {
    keep(sequence, SnapshotKind::kGrid);
  } else if (is_over && policy_.keeps_end(sequence.n_cached, state.n_kept)) {
    keep(sequence, SnapshotKind::kEnd);
  }
  outdate_resumed(sequence);
}

void SnapshotPlanner::keep_for_resumption(Sequence& sequence) {
  if (!sequence.table.state() || !sequence.uses_cache()) return;
  if (sequence.n_cached > sequence.snapshots.n_kept) keep(sequence, SnapshotKind::kGrid);
  outdate_resumed(sequence);
}

// A continuation of this conversation will start from the newer snapshot.
void SnapshotPlanner::outdate_resumed(const Sequence& sequence) {
  const SnapshotState& state = sequence.snapshots;
  const uint32_t n_begin = sequence.usage.prompt_tokens;
  if (state.resumed && state.n_kept >= n_begin) kv_.snapshots().outdate(state.resumed->key);
}

void SnapshotPlanner::plan_marks(Sequence& sequence) {
  const FoundPrefix& found = sequence.queue.found;
  sequence.snapshots = {.n_kept = sequence.n_cached};
  if (!policy_.is_on() || !sequence.uses_cache()) return;
  SnapshotState& state = sequence.snapshots;
  state.resumed = found.snapshot();
  const bool is_own = sequence.queue.was_preempted;  // kept regardless of the policy
  if (state.resumed && !is_own) policy_.note_used(state.resumed->kind);
  std::vector<uint32_t> wanted;
  for (const Pin& pin : sequence.request.pins) wanted.push_back(pin.n_tokens);
  state.marks = policy_.marks({.n_tokens = sequence.n_tokens(),
                               .n_found = sequence.n_cached,
                               .n_known = found.n_known(),
                               .message_ends = sequence.request.message_ends,
                               .wanted = wanted});
}

bool SnapshotPlanner::waits_for_state(const Sequence& waiting) {
  const auto tokens = waiting.cacheable_tokens();
  if (!policy_.is_on() || tokens.empty()) return false;
  const SharingMark reader = kv_.pages().mark_of(waiting.table.owner.tenant);
  for (const auto& other : running_.all()) {
    if (other->is_decoding() || !other->uses_cache() || other->root() != waiting.root()) continue;
    if (!may_hit(reader, kv_.pages().mark_of(other->table.owner.tenant))) continue;
    const auto theirs = std::span(other->tokens).first(other->n_tokens() - 1);
    const uint32_t n_shared = common_prefix(theirs, tokens) / kPageTokens * kPageTokens;
    if (n_shared < waiting.queue.found.n_tokens() + SnapshotPolicy::kMinShared) continue;
    if (n_shared <= other->n_cached) continue;
    std::vector<SnapshotMark>& marks = other->snapshots.marks;
    const auto place = std::ranges::lower_bound(marks, n_shared, {}, &SnapshotMark::n_tokens);
    if (place != marks.end() && place->n_tokens == n_shared) {
      place->kind = SnapshotKind::kBranch;
    } else {
      marks.insert(place, {n_shared, SnapshotKind::kBranch});
    }
    return true;
  }
  return false;
}

}  // namespace kvik
