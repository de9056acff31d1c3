#include "engine/schedule/admission_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "engine/schedule/own_priority.h"

namespace kvik {
namespace {

// Milliseconds of pending prompts beyond which a longer prompt is not admitted.
constexpr double kBacklogMs = 1000;
constexpr double kDueAfter = 3;  // times the prompt's own time, until a waiting prompt is due

auto admission_rank(const Sequence& sequence) {
  return std::tuple(sequence.priority_among_all(), !sequence.queue.was_preempted,
                    sequence.tenant->level(), sequence.queue.turn);
}

}  // namespace

AdmissionQueue::AdmissionQueue(const Context& context, const SchedulerOptions& options)
    : kv_(context.kv),
      costs_(context.costs),
      tenants_(context.tenants),
      running_(context.running),
      snapshots_(context.snapshots),
      reuse_(context.reuse),
      working_set_(context.kv, context.costs, context.running),
      options_(options) {}

void AdmissionQueue::add(std::unique_ptr<Sequence> sequence) {
  QueueState& state = sequence->queue;
  state.arrival = ++n_added_;
  state.place = {.since = sequence->submitted, .arrival = state.arrival};
  look_up(*sequence);
  working_set_.note_arrival(state.found);
  waiting_.push_back(std::move(sequence));
}

void AdmissionQueue::put_back(std::unique_ptr<Sequence> sequence) {
  QueueState& state = sequence->queue;
  state.found = {};
  state.was_tier_asked = false;
  state.was_fetched_twice = false;
  state.was_preempted = true;
  const auto place = std::ranges::upper_bound(
      waiting_, state.arrival, {}, [](const auto& waiting) { return waiting->queue.arrival; });
  waiting_.insert(place, std::move(sequence));
}

std::unique_ptr<Sequence> AdmissionQueue::take(const Sequence& sequence) {
  const auto place = std::ranges::find(waiting_, &sequence, &std::unique_ptr<Sequence>::get);
  if (place == waiting_.end()) return nullptr;
  std::unique_ptr<Sequence> taken = std::move(*place);
  waiting_.erase(place);
  return taken;
}

uint32_t AdmissionQueue::n_held() const {
  // They wait for a place in the batch, and the working set is asked when there is one.
  if (running_.size() >= options_.max_running) return 0;
  return static_cast<uint32_t>(std::ranges::count_if(waiting_, [](const auto& waiting) {
    return waiting->queue.hold == QueueState::Hold::kHeld;
  }));
}

// The cached prefix of a prompt changes while it waits, so each step looks up one of them again.
void AdmissionQueue::admit(uint64_t step) {
  if (!waiting_.empty()) look_up(*waiting_[step % waiting_.size()]);
  assign_admission_order();
  while (running_.size() < options_.max_running) {
    working_set_.choose_held(waiting_);
    const auto first = next_admissible();
    if (first == waiting_.end() || is_blocked(**first) || has_backlog_before(**first)) return;
    if (!open(**first)) {
      blocked_ = {.id = (*first)->id, .n_available = kv_.n_available()};
      return;
    }
    take_place(**first);
    working_set_.note_admitted(**first);
    std::unique_ptr<Sequence> sequence = std::move(*first);
    waiting_.erase(first);
    if (!sequence->queue.was_preempted) {
      sequence->queue.due = sequence->submitted + from_ms(pending_ms(*sequence));
    }
    running_.add(std::move(sequence), step);
  }
}

// Orders the sequences by due time. Then the requests of each tenant exchange positions by
// priority.
void AdmissionQueue::assign_admission_order() {
  in_order_.clear();
  for (const auto& waiting : waiting_) {
    waiting->queue.turn = {waiting->queue.due, waiting->queue.place.arrival};
    if (waiting->tenant->n_ranked > 0) in_order_.push_back(waiting.get());
  }
  if (in_order_.size() < 2) return;
  std::ranges::sort(in_order_, {}, [](const Sequence* waiting) { return waiting->queue.turn; });
  std::vector<std::pair<TimePoint, uint64_t>> turns;
  for (const Sequence* waiting : in_order_) turns.push_back(waiting->queue.turn);
  order_within_tenants(in_order_);
  for (size_t i = 0; i < turns.size(); ++i) in_order_[i]->queue.turn = turns[i];
}

// Gives the place of `sequence` to the sequence whose turn it takes, so that each place is used
// once.
void AdmissionQueue::take_place(Sequence& sequence) {
  QueueState& own = sequence.queue;
  const uint64_t taken = own.turn.second;
  if (taken == own.place.arrival) return;
  const auto at = std::ranges::find(
      waiting_, taken, [](const auto& waiting) { return waiting->queue.place.arrival; });
  CHECK(at != waiting_.end());
  QueueState& other = (*at)->queue;
  std::swap(other.place, own.place);
  other.due = other.place.since + from_ms(kDueAfter * other.prompt_ms);
}

// Updates the prompt's time and thus its due time. A prompt with few cached tokens waits for a
// while for those with many, which then use their cached pages before these are evicted.
void AdmissionQueue::look_up(Sequence& sequence) {
  QueueState& state = sequence.queue;
  // Pages of a held sequence may be evicted: it needs room for all of them later.
  const bool is_held = state.hold == QueueState::Hold::kHeld;
  state.found = is_held ? kv_.find(sequence.query(), std::move(state.found))
                        : kv_.look_up(sequence.query(), std::move(state.found));
  const uint32_t n_known = state.found.n_tokens();
  state.prompt_ms =
      costs_.prompt_ms(n_known, sequence.n_tokens() - n_known, options_.max_step_tokens);
  state.due = state.place.since + from_ms(kDueAfter * state.prompt_ms);
}

// Returns true if the pending prompts that are no longer than this one take more than kBacklogMs,
// so that this one would not be computed soon. It is better left waiting: an admitted sequence
// holds pages, which the cache would lack.
bool AdmissionQueue::has_backlog_before(const Sequence& sequence) const {
  double backlog_ms = 0;
  for (const auto& running : running_.all()) {
    if (running->is_decoding()) continue;
    const double ms = pending_ms(*running);
    if (ms <= sequence.queue.prompt_ms) backlog_ms += ms;
  }
  return backlog_ms > kBacklogMs;
}

double AdmissionQueue::pending_ms(const Sequence& sequence) const {
  return costs_.prompt_ms(sequence.n_cached, sequence.n_pending(), options_.max_step_tokens);
}

// Returns true if the sequence failed to fit last time and no more pages are available now. Looking
// up a long prompt in each step would cost more than it can save.
bool AdmissionQueue::is_blocked(const Sequence& sequence) const {
  return !running_.empty() && sequence.id == blocked_.id &&
         kv_.n_available() <= blocked_.n_available;
}

// Skips sequences whose pages are still being fetched.
Sequences::iterator AdmissionQueue::next_admissible() {
  auto passed = waiting_.end();
  for (uint32_t i = 0; i < kFetchAhead; ++i) {
    const auto next = next_after(passed);
    if (next == waiting_.end() || (!snapshots_.waits_for_state(**next) && is_fetched(**next)))
      return next;
    passed = next;
  }
  return waiting_.end();
}

Sequences::iterator AdmissionQueue::next_after(Sequences::iterator passed) {
  auto best = waiting_.end();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if ((*it)->queue.hold == QueueState::Hold::kHeld || !may_run(**it)) continue;
    if (passed != waiting_.end() && admission_rank(**it) <= admission_rank(**passed)) continue;
    if (best == waiting_.end() || admission_rank(**it) < admission_rank(**best)) best = it;
  }
  return best;
}

// Returns true if all pages of the sequence that are worth fetching from a tier are in memory.
// Otherwise starts to fetch them. If memory became short and the pages were released, they are
// fetched once more.
bool AdmissionQueue::is_fetched(Sequence& sequence) {
  QueueState& state = sequence.queue;
  if (state.fetch && !may_fetch_again(sequence)) return state.fetch->is_done();
  if (!state.fetch && (!tier_ || state.was_tier_asked)) return true;
  const PrefixQuery query = sequence.query();
  if (!query.tokens.empty() && !tier_->may_fetch()) return false;
  state.was_tier_asked = true;
  state.was_fetched_twice = state.fetch != nullptr;
  FoundPrefix& found = state.found;
  found = kv_.find(query, std::move(found));
  const auto n_rest = static_cast<uint32_t>(query.tokens.size()) - found.n_tokens();
  if (n_rest == 0) return true;
  const TierLink::Rest rest{n_rest, costs_.known_compute_ms(found.n_tokens(), n_rest)};
  auto fetch = tier_->fetch(query, found, rest);
  if (!fetch && state.fetch) return true;  // by now computing is known to be faster
  state.fetch = std::move(fetch);
  if (!state.fetch && tier_->may_load(rest)) return true;
  if (!state.fetch) {
    found.note_unread_tier(MissReason::kTierDeclined);
    return true;
  }
  return state.fetch->is_done();
}

bool AdmissionQueue::may_fetch_again(const Sequence& sequence) const {
  const QueueState& state = sequence.queue;
  return state.fetch->was_released() && !state.was_fetched_twice &&
         kv_.n_available() >= pages_held(sequence.n_tokens());
}

// Returns the number of pages, in all layer groups, of a sequence that shares none.
uint64_t AdmissionQueue::pages_held(uint64_t n_tokens) const {
  return pages_at_once(kv_.layout(), n_tokens);
}

// If several tenants send requests, each may take at most three times the free places in the batch,
// and three times the free pages. A single tenant gets three quarters, two get three sevenths each,
// and the next tenant does not have to wait until one of their sequences ends (Choudhury and Hahne
// 1998, dynamic thresholds).
bool AdmissionQueue::may_run(const Sequence& sequence) const {
  if (!tenants_.is_shared() || sequence.tenant->n_running == 0) return true;
  const uint64_t n_places_left = options_.max_running - running_.size();
  if (sequence.tenant->n_running >= 3 * n_places_left) return false;
  uint64_t n_own = pages_held(sequence.n_tokens());
  uint64_t n_all = n_own;
  for (const auto& other : running_.all()) {
    const uint32_t n_found = std::min(other->reuse.n_pages_found, other->table.n_pages());
    const uint64_t n =
        pages_held(other->table.n_tokens_max()) - pages_held(uint64_t{n_found} * kPageTokens);
    n_all += n;
    if (other->tenant == sequence.tenant) n_own += n;
  }
  return n_own <= 3 * (kv_.n_token_pages() - std::min<uint64_t>(kv_.n_token_pages(), n_all));
}

// Loads the pages that were not worth waiting for while the prompt is computed.
void AdmissionQueue::begin_load(Sequence& sequence) {
  const PrefixQuery query = sequence.query();
  const uint32_t n_cached = sequence.n_cached;
  const auto n_rest = static_cast<uint32_t>(query.tokens.size()) - n_cached;
  if (n_rest == 0) return;
  sequence.load =
      tier_->load(query, sequence.table, {n_rest, costs_.known_compute_ms(n_cached, n_rest)});
}

bool AdmissionQueue::open(Sequence& sequence) {
  QueueState& state = sequence.queue;
  if (!kv_.open(sequence.table, sequence.query(), state.found, sequence.n_tokens(),
                running_.empty() ? 0 : kWatermark)) {
    return false;
  }
  if (state.fetch) tier_->count_hits(*state.fetch);
  state.fetch.reset();
  state.found.let_go();
  reuse_.count(sequence, state.found.n_tokens());
  if (tier_ && sequence.uses_cache()) begin_load(sequence);
  snapshots_.plan_marks(sequence);
  return true;
}

}  // namespace kvik
