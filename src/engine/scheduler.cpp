#include "engine/scheduler.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace kvik {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr uint32_t kFavouredPart = 4;  // one of so many parts of what prompts get
constexpr double kAnswerFade = 0.9;    // of the mean answer, at each one that ends

// In the order of who must never be held up: of two, the later gives way.
auto seniority(const Sequence& sequence) {
  return std::tuple(sequence.request.priority, sequence.arrival);
}

auto admission_rank(const Sequence& sequence) {
  return std::tuple(sequence.request.priority, !sequence.was_preempted, sequence.tenant->level(),
                    sequence.arrival);
}

auto group(const Sequence& sequence) {
  return std::tuple(sequence.request.priority, sequence.tenant->level());
}

auto prompt_rank(const Sequence& sequence) {
  return std::tuple(group(sequence), sequence.n_pending(), sequence.arrival);
}

auto due_rank(const Sequence& sequence) {
  return std::tuple(group(sequence), sequence.due, sequence.arrival);
}

}  // namespace

Scheduler::Scheduler(KvCache& kv, const SchedulerOptions& options) : kv_(kv), options_(options) {
  prompts_.reserve(options.max_running);
  running_.reserve(options.max_running);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  sequence->arrival = ++n_added_;
  sequence->tenant = &tenants_.enter(sequence->request.tenant);
  waiting_.push_back(std::move(sequence));
}

const StepPlan& Scheduler::plan() {
  ++n_steps_;
  plan_.clear();
  left_ = {.tokens = options_.max_step_tokens};
  grow();
  admit();
  plan_decodes();
  plan_prompts();
  plan_.ms = plan_.empty() ? 0 : costs_.ms(plan_.work);
  return plan_;
}

void Scheduler::admit() {
  while (running_.size() < options_.max_running) {
    const auto next = next_waiting();
    if (next == waiting_.end() || is_blocked(**next)) return;
    if (!open(**next)) {
      blocked_ = {.id = (*next)->id, .n_available = kv_.n_available()};
      return;
    }
    std::unique_ptr<Sequence> sequence = std::move(*next);
    waiting_.erase(next);
    start(std::move(sequence));
  }
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
    if (next == waiting_.end() || is_fetched(**next)) return next;
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

// Whether all is in memory that a slower tier has of the sequence's tokens; begins to bring it.
bool Scheduler::is_fetched(Sequence& sequence) {
  if (!tier_ || sequence.findable_tokens().empty()) return true;
  if (!sequence.fetch) {
    sequence.fetch =
        tier_->fetch(sequence.root, sequence.findable_tokens(), sequence.table.owner.tenant);
  }
  return sequence.fetch && sequence.fetch->is_done();
}

// In all layer groups, of a sequence of its own.
uint64_t Scheduler::pages_held(uint64_t n_tokens) const {
  return pages_at_once(kv_.layout(), n_tokens);
}

// Where tenants share, none may take more than three quarters of the places or of the pages: the
// others need not wait for one of its sequences to end.
bool Scheduler::may_run(const Sequence& sequence) const {
  if (!tenants_.is_shared() || sequence.tenant->n_running == 0) return true;
  if (sequence.tenant->n_running >= (options_.max_running * 3 + 3) / 4) return false;
  uint64_t n_pages = pages_held(sequence.n_tokens());
  for (const auto& other : running_) {
    if (other->tenant != sequence.tenant) continue;
    const uint32_t n_found = std::min(other->n_pages_found, other->table.n_pages());
    n_pages +=
        pages_held(other->table.n_tokens_max()) - pages_held(uint64_t{n_found} * kPageTokens);
  }
  return n_pages <= uint64_t{kv_.n_pages()} * 3 / 4;
}

// Pages to leave for the answers of all that run and of the next.
uint64_t Scheduler::watermark(const Sequence& next) const {
  if (running_.empty()) return 0;  // alone it may have every page
  if (options_.watermark == SchedulerOptions::Watermark::kOnePage) return 1;
  const auto growth = [&](const Sequence& sequence, uint64_t n_held_tokens) {
    const auto expected = static_cast<uint32_t>(mean_answer_);
    const uint32_t n_answer = std::min(sequence.request.max_tokens, expected);
    const uint64_t n_tokens = uint64_t{sequence.usage.prompt_tokens} + n_answer;
    return pages_held(std::max(n_tokens, n_held_tokens)) - pages_held(n_held_tokens);
  };
  uint64_t n = growth(next, next.n_tokens());
  for (const auto& sequence : running_) n += growth(*sequence, sequence->table.n_tokens_max());
  return std::max<uint64_t>(1, n);
}

bool Scheduler::open(Sequence& sequence) {
  const auto found = kv_.open(sequence.table, sequence.root, sequence.findable_tokens(),
                              sequence.n_tokens(), watermark(sequence));
  if (!found) return false;
  if (sequence.fetch) sequence.fetch->report(sequence.table, *found);
  sequence.fetch.reset();
  count_found(sequence, *found);
  return true;
}

void Scheduler::start(std::unique_ptr<Sequence> sequence) {
  sequence->last_advance = n_steps_;
  ++sequence->tenant->n_running;
  if (!sequence->was_preempted) {
    const double alone_ms =
        costs_.prompt_ms(sequence->n_cached, sequence->n_pending(), options_.max_step_tokens);
    sequence->due = sequence->submitted + from_ms(alone_ms);
  }
  const auto place = std::ranges::upper_bound(
      running_, seniority(*sequence), {}, [](const auto& running) { return seniority(*running); });
  running_.insert(place, std::move(sequence));
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
  if (sequence.uses_cache()) kv_.close(sequence.table, sequence.root, sequence.cached_tokens());
  sequence.table.clear();
  sequence.n_cached = 0;
}

void Scheduler::plan_decodes() {
  for (const auto& sequence : running_) {
    if (!sequence->is_decoding() || left_.tokens == 0) continue;
    plan_.add(*sequence, 1);
    --left_.tokens;
    sequence->tenant->charge_generated(1);
    sequence->last_advance = n_steps_;
  }
}

void Scheduler::plan_prompts() {
  prompts_.clear();
  for (const auto& sequence : running_) {
    if (!sequence->is_decoding()) prompts_.push_back(sequence.get());
  }
  if (prompts_.empty()) return;
  std::ranges::sort(prompts_, {}, [](const Sequence* prompt) { return prompt_rank(*prompt); });
  Sequence& favoured = choose_favoured();
  left_.ms = prompt_budget_ms();
  const Budget kept = {.tokens = std::max(1u, left_.tokens / kFavouredPart),
                       .ms = left_.ms < kNoLimit ? left_.ms / kFavouredPart : 0};
  bool is_favoured_planned = false;
  for (Sequence* prompt : prompts_) {
    if (prompt == &favoured) {
      is_favoured_planned = true;
      plan_prompt(
          *prompt,
          {.tokens = left_.tokens, .ms = std::max(left_.ms, kept.ms), .is_for_favoured = true});
    } else if (is_favoured_planned) {
      plan_prompt(*prompt, left_);
    } else {
      plan_prompt(*prompt, {.tokens = left_.tokens - std::min(left_.tokens, kept.tokens),
                            .ms = left_.ms - kept.ms});
    }
  }
}

// Decodes alone are in the plan. Past three quarters of the target the step grows with them, so
// that prompts keep a quarter of it.
double Scheduler::prompt_budget_ms() const {
  if (!options_.itl_target || plan_.empty()) return kNoLimit;
  const double decode_ms = costs_.ms(plan_.work);
  return std::max(to_ms(*options_.itl_target) - decode_ms, decode_ms / 3);
}

Sequence& Scheduler::choose_favoured() {
  Sequence& chosen = longest_unserved();
  chosen.last_advance = n_steps_;
  adopt(chosen);
  return most_advanced_alike(chosen);  // whoever computes its next page is favoured in its place
}

// Whoever is out of patience; else the one that is due first, of those before whom nobody else is.
Sequence& Scheduler::longest_unserved() const {
  Sequence* const oldest =
      *std::ranges::min_element(prompts_, {}, [](const Sequence* p) { return p->last_advance; });
  if (n_steps_ - oldest->last_advance > kPatience) return *oldest;
  return **std::ranges::min_element(prompts_, {}, [](const Sequence* p) { return due_rank(*p); });
}

void Scheduler::plan_prompt(Sequence& sequence, const Budget& budget) {
  adopt(sequence);
  if (!is_computed_in_this_step(sequence)) compute(most_advanced_alike(sequence), budget);
}

// However little the target leaves, the favoured one goes on.
void Scheduler::compute(Sequence& sequence, const Budget& budget) {
  const uint32_t n_most =
      std::min({sequence.n_pending(), budget.tokens, sequence.request.max_chunk});
  if (n_most == 0) return;
  uint32_t n = n_most;
  if (budget.ms < kNoLimit) n = costs_.tokens_within(budget.ms, sequence.n_cached, n_most);
  if (n == 0 && !budget.is_for_favoured) return;
  n = kv_.make_room(sequence.table, sequence.n_cached, std::max(n, 1u));

  const double before_ms = costs_.ms(plan_.work);
  plan_.add(sequence, n);
  left_.tokens -= n;
  left_.ms -= costs_.ms(plan_.work) - before_ms;
  if (options_.itl_target && n == sequence.n_pending()) {
    left_.ms = std::min(left_.ms, to_ms(*options_.itl_target) - costs_.ms(plan_.work));
  }
  sequence.tenant->charge_computed(n);
  sequence.last_advance = n_steps_;
}

// What others computed since the last step need not be computed here.
void Scheduler::adopt(Sequence& sequence) {
  const auto tokens = sequence.findable_tokens();
  if (tokens.size() < sequence.n_cached) return;
  const uint32_t n_known = kv_.adopt(sequence.table, sequence.root, tokens);
  if (n_known > sequence.n_cached) {
    count_found(sequence, n_known);
    sequence.last_advance = n_steps_;
  }
  adopt_filling_page(sequence, tokens);
}

// Nor what others computed of the page that they are still filling: choices of one request share
// their prompt to its last token.
void Scheduler::adopt_filling_page(Sequence& sequence, std::span<const TokenId> tokens) {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  if (tokens.size() <= std::max<size_t>(begin, sequence.n_cached)) return;
  const auto own = tokens.subspan(begin);
  for (const auto& other : running_) {
    if (other.get() == &sequence || other->n_cached <= sequence.n_cached) continue;
    if (!other->uses_cache() || other->root != sequence.root ||
        other->table.n_sealed() != sequence.table.n_sealed() ||
        other->table.last_key() != sequence.table.last_key()) {
      continue;
    }
    auto computed = other->cached_tokens().subspan(begin);
    computed = computed.first(std::min<size_t>(computed.size(), kPageTokens));
    const auto n_known = static_cast<uint32_t>(begin) + common_prefix(computed, own);
    if (n_known <= sequence.n_cached) continue;
    if (!kv_.copy_filling_page(sequence.table, other->table)) continue;
    count_found(sequence, n_known);
    sequence.last_advance = n_steps_;
  }
}

// Whether the next page of both is the same, with the same tokens in all pages before. Who takes
// less than a page a step is not waited for.
bool Scheduler::will_compute_for(const Sequence& other, const Sequence& sequence) const {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  const auto page_of = [&](std::span<const TokenId> tokens) {
    const auto rest = tokens.subspan(std::min(begin, tokens.size()));
    return rest.first(std::min<size_t>(kPageTokens, rest.size()));
  };
  const auto own = page_of(sequence.findable_tokens());
  return !own.empty() && begin + own.size() > sequence.n_cached && !other.is_decoding() &&
         other.uses_cache() && other.root == sequence.root &&
         other.request.max_chunk >= kPageTokens &&
         other.table.last_key() == sequence.table.last_key() &&
         common_prefix(page_of(other.tokens), own) == own.size();
}

bool Scheduler::is_computed_in_this_step(const Sequence& sequence) const {
  return std::ranges::any_of(plan_.entries, [&](const StepPlan::Entry& entry) {
    return entry.sequence == &sequence || will_compute_for(*entry.sequence, sequence);
  });
}

// Whoever of those that compute the same page began it goes on with it, whosever turn it is.
Sequence& Scheduler::most_advanced_alike(Sequence& sequence) const {
  Sequence* best = &sequence;
  for (Sequence* other : prompts_) {
    if (other->n_cached > best->n_cached && will_compute_for(*other, sequence)) best = other;
  }
  return *best;
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
  if (is_running) {
    const double fade = mean_answer_ == 0 ? 0 : kAnswerFade;
    mean_answer_ = fade * mean_answer_ + (1 - fade) * sequence.n_generated();
    --tenant.n_running;
  }
  tenants_.leave(tenant);
  std::erase_if(is_running ? running_ : waiting_, is_it);
}

}  // namespace kvik
