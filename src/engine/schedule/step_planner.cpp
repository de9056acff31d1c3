#include "engine/schedule/step_planner.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "engine/schedule/admission_queue.h"
#include "engine/schedule/own_priority.h"

namespace kvik {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
// The favored prompt gets 1 / kFavoredPart of the rows of prompts.
constexpr uint32_t kFavoredPart = 4;
constexpr double kBacklogSteps = 5;  // steps in which a backlog is computed if steps may be longer
constexpr double kStretch = 1.7;     // largest factor by which steps exceed the ITL target
// Tokens whose K and V a drafter writes to the sequence's own pages.
constexpr uint32_t kRoomForDrafts = 8;

auto group(const Sequence& sequence) {
  return std::tuple(sequence.priority_among_all(), sequence.tenant->level());
}

auto prompt_rank(const Sequence& sequence) {
  return std::tuple(group(sequence), sequence.n_pending(), sequence.queue.arrival);
}

auto due_rank(const Sequence& sequence) {
  return std::tuple(group(sequence), sequence.queue.due, sequence.queue.arrival);
}

// Returns the number of the step in which the prompt was served last or was admitted.
uint64_t advanced_step(const Sequence& sequence) {
  return std::max(sequence.last_served_step, sequence.run.admitted_step);
}

}  // namespace

StepPlanner::StepPlanner(const Context& context, const SchedulerOptions& options)
    : kv_(context.kv),
      costs_(context.costs),
      running_(context.running),
      speculator_(context.speculator),
      reuse_(context.reuse),
      sharing_(context.kv, context.running, context.reuse),
      options_(options) {
  prompts_.reserve(options.max_running);
}

const StepPlan& StepPlanner::plan(uint64_t step) {
  step_ = step;
  plan_.clear();
  left_ = {.tokens = options_.max_step_tokens};
  plan_decodes();
  plan_drafts();
  plan_prompts();
  plan_.ms = plan_.empty() ? 0 : costs_.ms(plan_.work);
  return plan_;
}

void StepPlanner::plan_decodes() {
  for (const auto& sequence : running_.all()) {
    if (!sequence->is_decoding() || left_.tokens == 0) continue;
    sequence->load.reset();  // pages that did not arrive in time
    plan_.add(*sequence, 1);
    --left_.tokens;
    sequence->tenant->charge_generated(1);
    sequence->last_served_step = step_;
  }
}

// Adds draft tokens. Called after all decodes are planned and before prompts, which get the
// remaining rows.
void StepPlanner::plan_drafts() {
  draft_rooms_.clear();
  for (const StepPlan::Entry& entry : plan_.entries) {
    draft_rooms_.push_back(draft_room(*entry.sequence));
    if (drafts_in_pages()) make_draft_room(*entry.sequence, draft_rooms_.back());
  }
  const auto n_prompts = static_cast<uint32_t>(
      std::ranges::count_if(running_.all(), [](const auto& s) { return !s->is_held(); }) -
      std::ssize(plan_.entries));
  speculator_.choose(plan_, draft_rooms_, {.n_rows = left_.tokens, .n_prompts = n_prompts}, costs_);
  for (StepPlan::Entry& entry : plan_.entries) {
    Sequence& sequence = *entry.sequence;
    if (drafts_in_pages()) {
      kv_.shrink(sequence.table, sequence.n_tokens() + sequence.speculation.draft.size());
    }
    if (sequence.speculation.draft.empty()) continue;
    const auto n_rows = static_cast<uint32_t>(1 + sequence.speculation.draft.size());
    speculator_.shorten(sequence, kv_.make_room(sequence.table, sequence.n_cached, n_rows) - 1);
    left_.tokens -= static_cast<uint32_t>(sequence.speculation.draft.size());
    plan_.add_draft(entry);
  }
}

// Returns the largest number of draft tokens that the sequence may verify: fewer than it has left
// to generate, and without taking a page that another sequence could need in this step.
uint32_t StepPlanner::draft_room(const Sequence& sequence) const {
  const uint32_t n_to_come = sequence.request.max_tokens - sequence.n_generated();
  if (n_to_come <= 1) return 0;
  const uint32_t n_in_page = kPageTokens - 1 - sequence.n_cached % kPageTokens;
  const uint64_t n_spared =
      AdmissionQueue::kWatermark + running_.size() * kv_.layout().n_groups() * 2;
  const uint32_t n_max = kv_.n_available() > n_spared ? kMaxDraftTokens : n_in_page;
  return std::min(n_to_come - 1, n_max);
}

// A drafter writes the K and V of its tokens before it is known how many of them will be verified.
void StepPlanner::make_draft_room(Sequence& sequence, uint32_t n_max) {
  if (sequence.request.speculate != Request::Speculate::kOn) return;
  kv_.make_room(sequence.table, sequence.n_cached, 1 + std::min(n_max, kRoomForDrafts));
}

void StepPlanner::plan_prompts() {
  prompts_.clear();
  for (const auto& sequence : running_.all()) {
    if (!sequence->is_decoding() && !sequence->is_held()) prompts_.push_back(sequence.get());
  }
  if (prompts_.empty()) return;
  std::ranges::sort(prompts_, {}, [](const Sequence* prompt) { return prompt_rank(*prompt); });
  order_within_tenants(prompts_);
  Sequence& favored = choose_favored();
  left_.ms = prompt_budget_ms();
  const Budget kept = {.tokens = std::max(1u, left_.tokens / kFavoredPart),
                       .ms = left_.ms < kNoLimit ? left_.ms / kFavoredPart : 0};
  bool is_favored_planned = false;
  for (Sequence* prompt : prompts_) {
    if (prompt == &favored) {
      is_favored_planned = true;
      plan_prompt(
          *prompt,
          {.tokens = left_.tokens, .ms = std::max(left_.ms, kept.ms), .is_guaranteed = true});
    } else if (is_favored_planned) {
      plan_prompt(*prompt, left_);
    } else {
      plan_prompt(*prompt, {.tokens = left_.tokens - std::min(left_.tokens, kept.tokens),
                            .ms = left_.ms - kept.ms});
    }
  }
}

// Returns the time that prompts may take in this step. Called while the plan contains only decodes.
// The step becomes longer if there is a backlog of prompts. If decodes take more than three
// quarters of the target, the step grows with them, so that prompts keep a quarter of it.
double StepPlanner::prompt_budget_ms() const {
  if (!options_.itl_target || plan_.empty()) return kNoLimit;
  const double decode_ms = costs_.ms(plan_.work);
  double backlog_ms = 0;
  for (const Sequence* prompt : prompts_)
    backlog_ms += costs_.prompt_ms(prompt->n_cached, prompt->n_pending(), options_.max_step_tokens);
  const double target_ms = to_ms(*options_.itl_target);
  const double stretched_ms =
      std::clamp(decode_ms + backlog_ms / kBacklogSteps, target_ms, kStretch * target_ms);
  return std::max(stretched_ms - decode_ms, decode_ms / 3);
}

Sequence& StepPlanner::choose_favored() {
  Sequence& chosen = longest_unserved();
  chosen.last_served_step = step_;
  adopt(chosen);
  // Favors the prompt that computes the next page of `chosen`.
  return sharing_.best_prompt_for_next_page(chosen, prompts_, plan_);
}

// Returns the prompt that has waited longest, if longer than kMaxWaitSteps; otherwise the first by
// due time among those with the highest priority.
Sequence& StepPlanner::longest_unserved() const {
  Sequence* const oldest =
      *std::ranges::min_element(prompts_, {}, [](const Sequence* p) { return advanced_step(*p); });
  if (step_ - advanced_step(*oldest) > kMaxWaitSteps) return *oldest;
  const Sequence& first =
      **std::ranges::min_element(prompts_, {}, [](const Sequence* p) { return due_rank(*p); });
  return **std::ranges::min_element(prompts_, {}, [&](const Sequence* p) {
    const bool is_others = p->tenant != first.tenant || group(*p) != group(first);
    return std::tuple(is_others, p->priority_among_own(), due_rank(*p));
  });
}

void StepPlanner::plan_prompt(Sequence& sequence, const Budget& budget) {
  adopt(sequence);
  if (sharing_.is_computed_in(plan_, sequence)) return;
  compute(sharing_.best_prompt_for_next_page(sequence, prompts_, plan_), budget);
}

// The favored prompt gets at least one row, even if the target leaves no time.
void StepPlanner::compute(Sequence& sequence, const Budget& budget) {
  uint32_t n_max = std::min(
      {sequence.n_pending(), budget.tokens, sequence.request.max_chunk, sequence.n_to_mark()});
  if (sequence.load) {
    const uint32_t n_rest = sequence.n_pending();
    const double ms = costs_.known_compute_ms(sequence.n_cached, n_rest).value_or(0);
    n_max = std::min(n_max, sequence.load->n_to_compute(sequence.n_cached, n_rest, ms));
  }
  if (n_max == 0) return;
  uint32_t n = n_max;
  if (budget.ms < kNoLimit) n = costs_.tokens_within(budget.ms, sequence.n_cached, n_max);
  if (n == 0 && !budget.is_guaranteed) return;
  n = kv_.make_room(sequence.table, sequence.n_cached, std::max(n, 1u));

  const double before_ms = costs_.ms(plan_.work);
  plan_.add(sequence, n);
  left_.tokens -= n;
  left_.ms -= costs_.ms(plan_.work) - before_ms;
  if (options_.itl_target && n == sequence.n_pending()) {
    left_.ms = std::min(left_.ms, kStretch * to_ms(*options_.itl_target) - costs_.ms(plan_.work));
  }
  if (sequence.load) sequence.load->note_computing(sequence.n_cached + n);
  sequence.tenant->charge_computed(n);
  sequence.last_served_step = step_;
}

void StepPlanner::adopt(Sequence& sequence) {
  if (sequence.load) take_loaded(sequence);
  if (sharing_.adopt(sequence)) sequence.last_served_step = step_;
}

// Continues after the loaded pages that begin where the prompt has been computed so far.
void StepPlanner::take_loaded(Sequence& sequence) {
  PageLoad& load = *sequence.load;
  const uint32_t n_before = sequence.n_cached;
  const uint32_t n_now = load.n_with_loaded(n_before);
  load.note_computing(n_now);
  if (n_now > n_before) {
    load.count_hits(n_before, n_now);
    const uint32_t n_hits = sequence.usage.cached_tokens;
    reuse_.count(sequence, n_now);
    sequence.n_loaded += sequence.usage.cached_tokens - n_hits;
    for (uint32_t end = n_before + kPageTokens; end <= n_now; end += kPageTokens) {
      kv_.seal(sequence.table, sequence.cached_tokens().first(end),
               load.mark_of(end / kPageTokens - 1));
    }
    sequence.last_served_step = step_;
  }
  if (load.is_over(sequence.n_cached)) sequence.load.reset();
}

}  // namespace kvik
