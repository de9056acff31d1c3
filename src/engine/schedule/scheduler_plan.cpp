// What the running sequences compute in a step. Who runs stands in scheduler.cpp.
#include <algorithm>
#include <limits>
#include <tuple>

#include "engine/schedule/own_priority.h"
#include "engine/schedule/scheduler.h"
#include "engine/speculate/speculator.h"

namespace kvik {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr uint32_t kFavouredPart = 4;   // one of so many parts of what prompts get
constexpr double kBacklogSteps = 5;     // within which a backlog is done, where steps may stretch
constexpr double kStretch = 1.7;        // of the ITL target, at most
constexpr uint32_t kRoomForDrafts = 8;  // tokens that a drafter leaves in a sequence's own pages

auto group(const Sequence& sequence) {
  return std::tuple(sequence.priority_among_all(), sequence.tenant->level());
}

auto prompt_rank(const Sequence& sequence) {
  return std::tuple(group(sequence), sequence.n_pending(), sequence.arrival);
}

auto due_rank(const Sequence& sequence) {
  return std::tuple(group(sequence), sequence.due, sequence.arrival);
}

}  // namespace

void Scheduler::plan_decodes() {
  for (const auto& sequence : running_) {
    if (!sequence->is_decoding() || left_.tokens == 0) continue;
    plan_.add(*sequence, 1);
    --left_.tokens;
    sequence->tenant->charge_generated(1);
    sequence->last_advance = n_steps_;
  }
}

// Behind all decodes, before prompts, which get what guesses leave.
void Scheduler::plan_drafts() {
  draft_rooms_.clear();
  for (const StepPlan::Entry& entry : plan_.entries) {
    draft_rooms_.push_back(draft_room(*entry.sequence));
    if (drafts_in_pages()) make_draft_room(*entry.sequence, draft_rooms_.back());
  }
  const auto n_prompts = static_cast<uint32_t>(
      std::ranges::count_if(running_, [](const auto& s) { return !s->is_held(); }) -
      std::ssize(plan_.entries));
  speculator_->choose(plan_, draft_rooms_, {.n_rows = left_.tokens, .n_prompts = n_prompts},
                      costs_);
  for (StepPlan::Entry& entry : plan_.entries) {
    Sequence& sequence = *entry.sequence;
    if (drafts_in_pages()) {
      kv_.shrink(sequence.table, sequence.n_tokens() + sequence.draft.size());
    }
    if (sequence.draft.empty()) continue;
    const auto n_rows = static_cast<uint32_t>(1 + sequence.draft.size());
    sequence.draft.resize(kv_.make_room(sequence.table, sequence.n_cached, n_rows) - 1);
    left_.tokens -= static_cast<uint32_t>(sequence.draft.size());
    plan_.add_draft(entry);
  }
}

// Guesses that a sequence may have computed: no more tokens than it will have, and no page that
// somebody else could want in this step.
uint32_t Scheduler::draft_room(const Sequence& sequence) const {
  const uint32_t n_to_come = sequence.request.max_tokens - sequence.n_generated();
  if (n_to_come <= 1) return 0;
  const uint32_t n_in_page = kPageTokens - 1 - sequence.n_cached % kPageTokens;
  const uint64_t n_spared = kWatermark + running_.size() * kv_.layout().n_groups() * 2;
  const uint32_t n_most = kv_.n_available() > n_spared ? kMostGuesses : n_in_page;
  return std::min(n_to_come - 1, n_most);
}

// What is guessed has K and V before it is known how much of it is computed.
void Scheduler::make_draft_room(Sequence& sequence, uint32_t n_most) {
  if (sequence.request.speculate != Request::Speculate::kOn) return;
  kv_.make_room(sequence.table, sequence.n_cached, 1 + std::min(n_most, kRoomForDrafts));
}

void Scheduler::plan_prompts() {
  prompts_.clear();
  for (const auto& sequence : running_) {
    if (!sequence->is_decoding() && !sequence->is_held()) prompts_.push_back(sequence.get());
  }
  if (prompts_.empty()) return;
  std::ranges::sort(prompts_, {}, [](const Sequence* prompt) { return prompt_rank(*prompt); });
  order_within_tenants(prompts_);
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

// Decodes alone are in the plan. The step stretches for a backlog of prompts, and past three
// quarters of the target it grows with the decodes, so that prompts keep a quarter of it.
double Scheduler::prompt_budget_ms() const {
  if (!options_.itl_target || plan_.empty()) return kNoLimit;
  const double decode_ms = costs_.ms(plan_.work);
  double backlog_ms = 0;
  for (const Sequence* prompt : prompts_) backlog_ms += pending_ms(*prompt);
  const double target_ms = to_ms(*options_.itl_target);
  const double stretched_ms =
      std::clamp(decode_ms + backlog_ms / kBacklogSteps, target_ms, kStretch * target_ms);
  return std::max(stretched_ms - decode_ms, decode_ms / 3);
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
  const Sequence& first =
      **std::ranges::min_element(prompts_, {}, [](const Sequence* p) { return due_rank(*p); });
  return **std::ranges::min_element(prompts_, {}, [&](const Sequence* p) {
    const bool is_others = p->tenant != first.tenant || group(*p) != group(first);
    return std::tuple(is_others, p->priority_among_own(), due_rank(*p));
  });
}

void Scheduler::plan_prompt(Sequence& sequence, const Budget& budget) {
  adopt(sequence);
  if (!is_computed_in_this_step(sequence)) compute(most_advanced_alike(sequence), budget);
}

// However little the target leaves, the favoured one goes on.
void Scheduler::compute(Sequence& sequence, const Budget& budget) {
  const uint32_t n_most = std::min(
      {sequence.n_pending(), budget.tokens, sequence.request.max_chunk, sequence.n_to_mark()});
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
    left_.ms = std::min(left_.ms, kStretch * to_ms(*options_.itl_target) - costs_.ms(plan_.work));
  }
  sequence.tenant->charge_computed(n);
  sequence.last_advance = n_steps_;
}

// What others computed since the last step need not be computed here.
void Scheduler::adopt(Sequence& sequence) {
  const auto tokens = sequence.findable_tokens();
  if (tokens.size() < sequence.n_cached || kv_.layout().has_state()) return;
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
        mark_of(*other) != mark_of(sequence) ||
        other->table.n_sealed() != sequence.table.n_sealed() ||
        other->table.last_key() != sequence.table.last_key()) {
      continue;
    }
    auto computed = other->cached_tokens().subspan(begin);
    computed = computed.first(std::min<size_t>(computed.size(), kPageTokens));
    const auto n_known = static_cast<uint32_t>(begin) + common_prefix(computed, own);
    if (n_known <= sequence.n_cached) continue;
    if (!kv_.copy_filling_page(sequence.table, other->table, other->n_cached)) continue;
    count_found(sequence, n_known);
    sequence.last_advance = n_steps_;
  }
}

// Whether the next page of both is the same, with the same tokens in all pages before; a whole one,
// where what they compute is not for both. Who takes less than a page a step is not waited for.
bool Scheduler::will_compute_for(const Sequence& other, const Sequence& sequence) const {
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  const auto page_of = [&](std::span<const TokenId> tokens) {
    const auto rest = tokens.subspan(std::min(begin, tokens.size()));
    return rest.first(std::min<size_t>(kPageTokens, rest.size()));
  };
  const auto own = page_of(sequence.findable_tokens());
  if (kv_.layout().has_state()) return false;  // it would lack the state behind it
  if (own.size() < kPageTokens && mark_of(other) != mark_of(sequence)) return false;
  return !own.empty() && begin + own.size() > sequence.n_cached && !other.is_decoding() &&
         other.uses_cache() && other.root == sequence.root &&
         other.request.max_chunk >= kPageTokens &&
         other.table.last_key() == sequence.table.last_key() &&
         common_prefix(page_of(other.tokens), own) == own.size();
}

// Whether the sequence finds its next page once those so marked have computed it: where two know it
// by then, or it is of its own tenant.
bool Scheduler::will_find(const Sequence& sequence, KnownBy computed_by) const {
  if (computed_by == KnownBy::kNobody) return false;
  const KnownBy reader = mark_of(sequence);
  if (may_find(reader, computed_by)) return true;
  const size_t begin = size_t{sequence.table.n_sealed()} * kPageTokens;
  const auto page = sequence.findable_tokens().subspan(begin, kPageTokens);
  return may_find(reader, joined(computed_by, kv_.who_knows(sequence.table, sequence.root, page)));
}

bool Scheduler::is_planned(const Sequence& sequence) const {
  return std::ranges::any_of(
      plan_.entries, [&](const StepPlan::Entry& entry) { return entry.sequence == &sequence; });
}

bool Scheduler::is_computed_in_this_step(const Sequence& sequence) const {
  KnownBy by = KnownBy::kNobody;
  for (const StepPlan::Entry& entry : plan_.entries) {
    if (entry.sequence == &sequence) return true;
    if (will_compute_for(*entry.sequence, sequence)) by = joined(by, mark_of(*entry.sequence));
  }
  return will_find(sequence, by);
}

// Whoever of those that compute the same page began it goes on with it, whosever turn it is: one
// of the same tenant, or of those who make the page known to all one that has no turn yet.
Sequence& Scheduler::most_advanced_alike(Sequence& sequence) const {
  Sequence* own = nullptr;
  Sequence* others = nullptr;
  KnownBy by = KnownBy::kNobody;
  for (Sequence* other : prompts_) {
    if (other->n_cached <= sequence.n_cached || !will_compute_for(*other, sequence)) continue;
    const bool is_own = mark_of(*other) == mark_of(sequence);
    if (!is_own) by = joined(by, mark_of(*other));
    if (!is_own && is_planned(*other)) continue;
    Sequence*& best = is_own ? own : others;
    if (!best || other->n_cached > best->n_cached) best = other;
  }
  if (own) return *own;
  return others && will_find(sequence, by) ? *others : sequence;
}

}  // namespace kvik
