#include "engine/schedule/scheduler.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"
#include "engine/schedule/own_priority.h"
#include "engine/speculate/speculator.h"

namespace kvik {
namespace {

constexpr double kBacklogMs = 1000;  // of prompts, while which no longer one is admitted
constexpr double kDueAfter = 3;      // times what a waiting prompt would take alone

// In the order of who must never be held up: of two, the later gives way.
auto seniority(const Sequence& sequence) {
  return std::tuple(sequence.priority_among_all(), sequence.seat);
}

auto admission_rank(const Sequence& sequence) {
  return std::tuple(sequence.priority_among_all(), !sequence.was_preempted,
                    sequence.tenant->level(), sequence.turn);
}

}  // namespace

Scheduler::Scheduler(KvCache& kv, const SchedulerOptions& options)
    : kv_(kv),
      options_(options),
      snapshots_(kv.layout()),
      speculator_(std::make_unique<Speculator>(options.speculation, kv)) {
  prompts_.reserve(options.max_running);
  running_.reserve(options.max_running);
}

Scheduler::~Scheduler() = default;

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrival = ++n_added_;
  sequence->queued = {.since = sequence->submitted, .arrival = sequence->arrival};
  sequence->tenant = &tenants_.enter(sequence->request.tenant);
  if (sequence->priority_among_own() != 0) ++sequence->tenant->n_ranked;
  look_up(*sequence);
  waiting_.push_back(std::move(sequence));
}

const StepPlan& Scheduler::plan() {
  ++n_steps_;
  plan_.clear();
  left_ = {.tokens = options_.max_step_tokens};
  grow();
  admit();
  plan_decodes();
  plan_drafts();
  plan_prompts();
  plan_.ms = plan_.empty() ? 0 : costs_.ms(plan_.work);
  return plan_;
}

// What is known of a prompt changes while it waits: one of them is looked up at each step.
void Scheduler::admit() {
  if (!waiting_.empty()) look_up(*waiting_[n_steps_ % waiting_.size()]);
  assign_turns();
  while (running_.size() < options_.max_running) {
    const auto next = next_waiting();
    if (next == waiting_.end() || is_blocked(**next) || must_let_pass(**next)) return;
    if (!open(**next)) {
      blocked_ = {.id = (*next)->id, .n_available = kv_.n_available()};
      return;
    }
    take_turn(**next);
    std::unique_ptr<Sequence> sequence = std::move(*next);
    waiting_.erase(next);
    start(std::move(sequence));
  }
}

// In the order of due times, but that a tenant's requests change places by priority.
void Scheduler::assign_turns() {
  in_order_.clear();
  for (const auto& waiting : waiting_) {
    waiting->turn = {waiting->due, waiting->queued.arrival};
    if (waiting->tenant->n_ranked > 0) in_order_.push_back(waiting.get());
  }
  if (in_order_.size() < 2) return;
  std::ranges::sort(in_order_, {}, [](const Sequence* waiting) { return waiting->turn; });
  std::vector<std::pair<TimePoint, uint64_t>> turns;
  for (const Sequence* waiting : in_order_) turns.push_back(waiting->turn);
  order_within_tenants(in_order_);
  for (size_t i = 0; i < turns.size(); ++i) in_order_[i]->turn = turns[i];
}

// Whose turn it was waits in the place of the one that took it: no place serves twice.
void Scheduler::take_turn(Sequence& sequence) {
  const uint64_t taken = sequence.turn.second;
  if (taken == sequence.queued.arrival) return;
  const auto other = std::ranges::find(waiting_, taken,
                                       [](const auto& waiting) { return waiting->queued.arrival; });
  CHECK(other != waiting_.end());
  std::swap((*other)->queued, sequence.queued);
  (*other)->due = (*other)->queued.since + from_ms(kDueAfter * (*other)->prompt_ms);
}

// What the prompt would take now, and so when it is due: one of which little is known waits for
// those of which much is known to use what is there, for a while. That it waits keeps what is
// known.
void Scheduler::look_up(Sequence& sequence) {
  sequence.found = kv_.look_up(sequence.query(), std::move(sequence.found));
  const uint32_t n_known = sequence.found.n_tokens();
  sequence.prompt_ms =
      costs_.prompt_ms(n_known, sequence.n_tokens() - n_known, options_.max_step_tokens);
  sequence.due = sequence.queued.since + from_ms(kDueAfter * sequence.prompt_ms);
}

// Whoever is admitted holds pages, which the cache then lacks: a prompt that would not be computed
// soon is better off waiting.
bool Scheduler::must_let_pass(const Sequence& sequence) const {
  double backlog_ms = 0;
  for (const auto& running : running_) {
    if (running->is_decoding()) continue;
    const double ms = pending_ms(*running);
    if (ms <= sequence.prompt_ms) backlog_ms += ms;
  }
  return backlog_ms > kBacklogMs;
}

double Scheduler::pending_ms(const Sequence& sequence) const {
  return costs_.prompt_ms(sequence.n_cached, sequence.n_pending(), options_.max_step_tokens);
}

// Looking a long prompt up at each step would cost more than it can bring: what did not fit does
// not fit before more pages are to be had.
bool Scheduler::is_blocked(const Sequence& sequence) const {
  return !running_.empty() && sequence.id == blocked_.id &&
         kv_.n_available() <= blocked_.n_available;
}

// Those whose pages are still on their way are passed by.
Scheduler::Sequences::iterator Scheduler::next_waiting() {
  auto passed = waiting_.end();
  for (uint32_t i = 0; i < kFetchAhead; ++i) {
    const auto next = next_waiting_after(passed);
    if (next == waiting_.end() || (!waits_for_state(**next) && is_fetched(**next))) return next;
    passed = next;
  }
  return waiting_.end();
}

Scheduler::Sequences::iterator Scheduler::next_waiting_after(Sequences::iterator passed) {
  auto best = waiting_.end();
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (!may_run(**it)) continue;
    if (passed != waiting_.end() && admission_rank(**it) <= admission_rank(**passed)) continue;
    if (best == waiting_.end() || admission_rank(**it) < admission_rank(**best)) best = it;
  }
  return best;
}

// Whether all is in memory that is worth bringing from a slower tier of the sequence's tokens;
// begins to bring it.
bool Scheduler::is_fetched(Sequence& sequence) {
  if (sequence.fetch) return sequence.fetch->is_done();
  if (!tier_ || sequence.was_tier_asked) return true;
  const PrefixQuery query = sequence.query();
  if (!query.tokens.empty() && !tier_->may_fetch()) return false;
  sequence.was_tier_asked = true;
  FoundPrefix& found = sequence.found;
  found = kv_.find(query, std::move(found));
  const auto n_rest = static_cast<uint32_t>(query.tokens.size()) - found.n_tokens();
  if (n_rest == 0) return true;
  sequence.fetch =
      tier_->fetch(query, found, {n_rest, costs_.known_compute_ms(found.n_tokens(), n_rest)});
  if (!sequence.fetch) {
    // Where memory knows how the prefix went on, that is the reason.
    const MissReason reason = found.report().miss;
    if (reason == MissReason::kNeverSeen || reason == MissReason::kEvicted) {
      found.note_tier_miss(MissReason::kTierDeclined);
    }
    return true;
  }
  return sequence.fetch->is_done();
}

// In all layer groups, of a sequence of its own.
uint64_t Scheduler::pages_held(uint64_t n_tokens) const {
  return pages_at_once(kv_.layout(), n_tokens);
}

// Where tenants share, none may take more than three times what is left of the places and of the
// pages: one alone gets three quarters, two get three sevenths each, and whoever comes next need
// not wait for one of their sequences to end (Choudhury and Hahne 1998, dynamic thresholds).
bool Scheduler::may_run(const Sequence& sequence) const {
  if (!tenants_.is_shared() || sequence.tenant->n_running == 0) return true;
  const uint64_t n_places_left = options_.max_running - running_.size();
  if (sequence.tenant->n_running >= 3 * n_places_left) return false;
  uint64_t n_own = pages_held(sequence.n_tokens());
  uint64_t n_all = n_own;
  for (const auto& other : running_) {
    const uint32_t n_found = std::min(other->n_pages_found, other->table.n_pages());
    const uint64_t n =
        pages_held(other->table.n_tokens_max()) - pages_held(uint64_t{n_found} * kPageTokens);
    n_all += n;
    if (other->tenant == sequence.tenant) n_own += n;
  }
  return n_own <= 3 * (kv_.n_token_pages() - std::min<uint64_t>(kv_.n_token_pages(), n_all));
}

bool Scheduler::open(Sequence& sequence) {
  FoundPrefix& found = sequence.found;
  if (!kv_.open(sequence.table, sequence.query(), found, sequence.n_tokens(),
                running_.empty() ? 0 : kWatermark)) {
    return false;
  }
  if (sequence.fetch) tier_->count_hits(*sequence.fetch);
  sequence.fetch.reset();
  found.let_go();
  count_found(sequence, found.n_tokens());
  plan_marks(sequence);
  return true;
}

void Scheduler::start(std::unique_ptr<Sequence> sequence) {
  sequence->last_advance = n_steps_;
  ++sequence->tenant->n_running;
  if (!sequence->was_preempted) {
    sequence->due = sequence->submitted + from_ms(pending_ms(*sequence));
  }
  sequence->seat = sequence->arrival;
  const Tenant& tenant = *sequence->tenant;
  const auto place = std::ranges::upper_bound(
      running_, seniority(*sequence), {}, [](const auto& running) { return seniority(*running); });
  running_.insert(place, std::move(sequence));
  if (tenant.n_ranked > 0) assign_seats(tenant);
}

// Of a tenant's running sequences, the first by priority is the last to give its pages back.
void Scheduler::assign_seats(const Tenant& tenant) {
  in_order_.clear();
  std::vector<uint64_t> seats;
  for (const auto& running : running_) {
    if (running->tenant != &tenant) continue;
    in_order_.push_back(running.get());
    seats.push_back(running->seat);
  }
  std::ranges::sort(in_order_, {}, [](const Sequence* running) {
    return std::tuple(running->priority_among_all(), running->arrival);
  });
  order_within_tenants(in_order_);
  for (size_t i = 0; i < seats.size(); ++i) in_order_[i]->seat = seats[i];
  std::ranges::sort(running_, {}, [](const auto& running) { return seniority(*running); });
}

// The first n_cached tokens have K and V: those that never had any were found, not computed. What a
// preempted sequence had before it gave its pages back counts no second time.
void Scheduler::count_found(Sequence& sequence, uint32_t n_cached) {
  const uint32_t n_had = std::max(sequence.n_cached, sequence.n_cached_before);
  if (sequence.n_generated() == 0 && n_cached > n_had) {
    const uint32_t n_found = n_cached - n_had;
    sequence.usage.cached_tokens += n_found;
    sequence.tenant->charge_found(n_found);
    n_found_tokens_ += n_found;
  }
  sequence.n_cached = n_cached;
  sequence.n_pages_found = n_cached / kPageTokens;
}

// Before a preemption. What was found by one that has not had a step yet was of no use to it.
void Scheduler::forget_found(Sequence& sequence) {
  if (sequence.started) {
    sequence.n_cached_before = std::max(sequence.n_cached_before, sequence.n_cached);
  } else {
    n_found_tokens_ -= sequence.usage.cached_tokens;
    sequence.usage.cached_tokens = 0;
  }
}

// From the first to the last, which are those that go where pages are short.
void Scheduler::grow() {
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!grow_or_preempt(*running_[i])) return;
  }
}

// False where `sequence` itself had to go: it was the last one left.
bool Scheduler::grow_or_preempt(Sequence& sequence) {
  while (!kv_.grow(sequence.table, sequence.n_tokens())) {
    // What could not finish alone was refused at submission.
    CHECK(running_.size() > 1);
    const bool is_itself = running_.back().get() == &sequence;
    preempt_last();
    if (is_itself) return false;
  }
  return true;
}

void Scheduler::preempt_last() {
  std::unique_ptr<Sequence> last = std::move(running_.back());
  running_.pop_back();
  forget_found(*last);
  last->found = {};
  last->was_tier_asked = false;
  let_go(*last);
  --last->tenant->n_running;
  last->was_preempted = true;
  ++n_preemptions_;
  const auto place = std::ranges::upper_bound(waiting_, last->arrival, {},
                                              [](const auto& waiting) { return waiting->arrival; });
  waiting_.insert(place, std::move(last));
}

// Ends its leases. What was computed stays findable.
void Scheduler::let_go(Sequence& sequence) {
  speculator_->let_go(sequence);
  if (sequence.uses_cache()) {
    keep_end(sequence);
    kv_.close(sequence.table, sequence.root, sequence.cached_tokens());
  }
  sequence.table.clear();
  sequence.n_cached = 0;
  sequence.held_logits = {};  // what they belong to is computed again
}

void Scheduler::commit(const StepPlan& plan, std::span<const uint32_t> accepted) {
  for (size_t i = 0; i < accepted.size(); ++i) {
    const StepPlan::Entry& entry = plan.entries[i];
    const uint32_t n_guessed = entry.n_true(accepted[i]);
    entry.sequence->usage.drafted_tokens += entry.n_guesses();
    entry.sequence->usage.accepted_tokens += n_guessed;
    entry.sequence->tenant->charge_generated(n_guessed);
  }
  n_prompt_tokens_ += commit_rows(kv_, plan, accepted);
  for (const StepPlan::Entry& entry : plan.entries) keep_marked(*entry.sequence);
  for (const StepPlan::Entry& entry : plan.entries) entry.sequence->draft.clear();
}

void Scheduler::observe(Duration time) { speculator_->observe(plan_, to_ms(time), costs_); }

void Scheduler::append(Sequence& sequence, TokenId token) {
  sequence.tokens.push_back(token);
  if (sequence.uses_cache()) return;
  sequence.n_cached = 0;  // all is computed again, and what slid out of a window is wanted again
  sequence.table.clear();
}

Sequence* Scheduler::find(RequestId id) {
  for (const Sequences* sequences : {&running_, &waiting_}) {
    for (const auto& sequence : *sequences) {
      if (sequence->id == id) return sequence.get();
    }
  }
  return nullptr;
}

Sequence* Scheduler::any() {
  if (!running_.empty()) return running_.front().get();
  return waiting_.empty() ? nullptr : waiting_.front().get();
}

void Scheduler::remove(Sequence& sequence) {
  const auto is_it = [&](const auto& candidate) { return candidate.get() == &sequence; };
  const bool is_running = std::ranges::any_of(running_, is_it);
  let_go(sequence);
  Tenant& tenant = *sequence.tenant;
  if (is_running) --tenant.n_running;
  if (sequence.priority_among_own() != 0) --tenant.n_ranked;
  tenants_.leave(tenant);
  std::erase_if(is_running ? running_ : waiting_, is_it);
}

}  // namespace kvik
