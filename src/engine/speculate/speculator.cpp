#include "engine/speculate/speculator.h"

#include <algorithm>
#include <cmath>

namespace kvik {
namespace {

constexpr double kMinChance = 0.02;  // smallest acceptance probability of a useful draft
constexpr double kMinGain = 0.01;    // of the logarithm of speed: smaller gains are noise
// Largest added time of a step, as a share of its time, so that no pause is visible.
constexpr double kMaxAddedShare = 1;
// Largest slowdown of a sequence because of the drafts of others.
constexpr double kMaxSlowdown = 1.25;
constexpr uint32_t kReserveTokens = 4096;
// Accepted tokens expected from other sources, at which no model is used.
constexpr double kEnoughWithoutModel = 1.5;
constexpr uint32_t kMaxDrafted = 8;  // draft tokens by a draft model
constexpr uint64_t kTryAgain = 64;   // steps without a draft model, after which it is tried again
constexpr float kShareRate = 0.05f;

// Returns the part of a step's time that depends on the context and not on the rows.
double context_ms(const StepWork& work, const CostModel& costs) {
  return costs.kv_ms(work) + costs.attention_ms(work);
}

}  // namespace

Speculator::Speculator(const SpeculationOptions& options, const KvCache& kv)
    : options_(options), drafters_{&suffix_, &resume_, nullptr, options.drafter, &forced_} {
  if (options.mode == SpeculationOptions::Mode::kOff) return;
  drafters_[static_cast<size_t>(DraftSource::kChain)] = &chains_.emplace(kv);
}

double Speculator::Candidate::next_chance() const {
  if (n_taken >= std::min<size_t>(n_max, draft->size())) return 0;
  return all_accepted * acceptance->chance((*draft)[n_taken].kind);
}

void Speculator::Candidate::take() {
  all_accepted = next_chance();
  expected += all_accepted;
  ++n_taken;
}

// --- proposing ---

// Compares the last proposals with the tokens that followed, and updates the acceptance rates.
void Speculator::learn(Sequence& sequence) {
  DraftState& state = *sequence.speculation.drafts;
  const auto came = std::span(sequence.tokens).subspan(state.n_then);
  for (Draft& draft : state.proposals) {
    for (size_t i = 0; i < std::min(came.size(), draft.size()); ++i) {
      const bool is_right = draft[i].token == came[i];
      state.acceptance.learn(draft[i].kind, is_right);
      if (draft[i].kind.source == DraftSource::kModel)
        state.model_share += kShareRate * ((is_right ? 1.0f : 0.0f) - state.model_share);
      if (!is_right) break;
    }
    draft.clear();
  }
}

double Speculator::expected(const Sequence& sequence, const Draft& draft) const {
  double all_accepted = 1, sum = 0;
  for (const DraftToken& token : draft) {
    all_accepted *= sequence.speculation.drafts->acceptance.chance(token.kind);
    if (all_accepted < kMinChance) break;
    sum += all_accepted;
  }
  return sum;
}

// Collects proposals of the sources that cost almost nothing.
void Speculator::begin(Sequence& sequence, uint32_t n_max) {
  if (!sequence.speculation.drafts) {
    const uint64_t n_tokens =
        uint64_t{sequence.n_tokens()} + std::min(sequence.request.max_tokens, kReserveTokens);
    sequence.speculation.drafts = std::make_unique<DraftState>(n_tokens);
    sequence.speculation.draft.reserve(kMaxDraftTokens);
  } else {
    learn(sequence);
  }
  Candidate candidate{.sequence = &sequence,
                      .acceptance = &sequence.speculation.drafts->acceptance,
                      .n_max = std::min(n_max, options_.n_max)};
  for (const auto source :
       {DraftSource::kForced, DraftSource::kSuffix, DraftSource::kResume, DraftSource::kChain}) {
    propose(candidate, source);
  }
  sequence.speculation.drafts->n_then = sequence.n_tokens();
  candidates_.push_back(candidate);
}

void Speculator::propose(Candidate& candidate, DraftSource source) {
  Drafter* drafter = drafters_[static_cast<size_t>(source)];
  if (!drafter) return;
  Draft& draft = candidate.sequence->speculation.drafts->proposals[static_cast<size_t>(source)];
  drafter->propose(*candidate.sequence, kMaxDraftTokens, draft);
  const double value = expected(*candidate.sequence, draft);
  if (value <= candidate.value) return;
  candidate.value = value;
  candidate.draft = &draft;
}

// Lets the draft model propose. Its tokens take time even if they are not verified.
void Speculator::propose_with_model(const StepPlan& plan, const CostModel& costs) {
  Drafter* model = drafters_[static_cast<size_t>(DraftSource::kModel)];
  asked_.clear();
  for (const Candidate& candidate : candidates_) {
    if (model && wants_model(candidate)) asked_.push_back(candidate.sequence);
  }
  if (asked_.empty()) return;
  const uint32_t n_max = n_model_tokens(plan, costs);
  if (n_max == 0) return;
  model->begin_step(asked_, n_max);
  for (Candidate& candidate : candidates_) {
    if (wants_model(candidate)) propose(candidate, DraftSource::kModel);
  }
}

bool Speculator::wants_model(const Candidate& candidate) {
  return candidate.value < kEnoughWithoutModel && candidate.n_max > 0;
}

// Returns how many tokens the draft model drafts for each sequence: the number that is worth its
// cost, given its recent acceptance, and no more than any of them may verify. If none is worth it,
// the model is tried again now and then.
uint32_t Speculator::n_model_tokens(const StepPlan& plan, const CostModel& costs) {
  uint32_t n_max = 0;
  for (const Candidate& candidate : candidates_) {
    if (wants_model(candidate)) n_max = std::max(n_max, candidate.n_max);
  }
  if (options_.mode == SpeculationOptions::Mode::kAlways) return n_max;
  const double row_ms = costs.row_ms();
  const double rows_ms = row_costs_.ms(plan.work.n_rows, row_ms);
  if (rows_ms <= 0) return 0;
  const double base_ms = rows_ms + context_ms(plan.work, costs);
  const double token_ms = drafters_[static_cast<size_t>(DraftSource::kModel)]->token_ms();
  double share = 0;
  for (const Sequence* sequence : asked_) share += sequence->speculation.drafts->model_share;
  share /= static_cast<double>(asked_.size());
  double most = kMinGain, all_accepted = 1, sum = 1;
  uint32_t best = 0;
  for (uint32_t n = 1; n <= std::min(kMaxDrafted, n_max); ++n) {
    all_accepted *= share;
    sum += all_accepted;
    const auto n_rows = plan.work.n_rows + n * static_cast<uint32_t>(asked_.size());
    const double ms = row_costs_.ms(n_rows, row_ms) - rows_ms + n * token_ms;
    const double gain = std::log(sum) * static_cast<double>(asked_.size()) -
                        std::log(1 + ms / base_ms) * static_cast<double>(plan.entries.size());
    if (gain <= most) continue;
    most = gain;
    best = n;
  }
  if (best > 0) return best;
  return ++n_steps_without_model_ % kTryAgain == 0 ? 1 : 0;
}

void Speculator::release(Sequence& sequence) {
  if (chains_) chains_->remember(sequence);
  if (options_.drafter) options_.drafter->release(sequence);
}

// --- choosing ---

void Speculator::choose(const StepPlan& plan, std::span<const uint32_t> n_max, const Room& room,
                        const CostModel& costs) {
  candidates_.clear();
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    Sequence& sequence = *plan.entries[i].sequence;
    sequence.speculation.draft.clear();
    const bool may_draft = options_.mode != SpeculationOptions::Mode::kOff &&
                           sequence.request.speculate == Request::Speculate::kOn;
    if (may_draft) begin(sequence, n_max[i]);
  }
  propose_with_model(plan, costs);
  std::erase_if(candidates_, [](const Candidate& c) { return !c.draft || c.n_max == 0; });
  if (candidates_.empty()) return;
  const uint32_t n = n_worthwhile(plan, room, costs);
  for (uint32_t i = 0; i < n; ++i) {
    Sequence& sequence = *order_[i]->sequence;
    sequence.speculation.draft.push_back(
        (*order_[i]->draft)[sequence.speculation.draft.size()].token);
  }
}

// Returns the candidate whose next draft token increases the product of all speeds most, or null if
// none is left.
Speculator::Candidate* Speculator::best_candidate() {
  Candidate* best = nullptr;
  double most = 0;
  for (Candidate& candidate : candidates_) {
    const double chance = candidate.next_chance();
    const bool is_wanted =
        options_.mode == SpeculationOptions::Mode::kAlways ? chance > 0 : chance >= kMinChance;
    if (!is_wanted || chance / candidate.expected <= most) continue;
    most = chance / candidate.expected;
    best = &candidate;
  }
  return best;
}

// Returns the smallest number of tokens that any sequence of the step can expect. A sequence
// without a draft gets one.
double Speculator::min_expected(const StepPlan& plan, const Room& room) const {
  if (candidates_.size() < plan.entries.size() || room.n_prompts > 0) return 1;
  return std::ranges::min_element(candidates_, {}, &Candidate::expected)->expected;
}

// Fills order_ and returns how many of its draft tokens are worth computing.
uint32_t Speculator::n_worthwhile(const StepPlan& plan, const Room& room, const CostModel& costs) {
  order_.clear();
  const uint32_t n_base = plan.work.n_rows;
  const double row_ms = costs.row_ms();
  const double rows_ms = row_costs_.ms(n_base, row_ms);
  const double base_ms = rows_ms + context_ms(plan.work, costs);
  const double n_in_step = static_cast<double>(plan.entries.size() + room.n_prompts);
  const double attention_ms =
      costs.attention_ms({.attention = plan.work.kv_tokens / double(plan.entries.size())});
  double gain = 0, most = kMinGain;
  uint32_t n_best = 0;
  const uint32_t n_max = std::min({room.n_rows, options_.n_max_in_step, RowCosts::kMaxRows});
  while (order_.size() < n_max) {
    Candidate* next = best_candidate();
    if (!next) break;
    gain -= std::log(next->expected);
    next->take();
    gain += std::log(next->expected);
    order_.push_back(next);
    const auto n = static_cast<uint32_t>(order_.size());
    if (options_.mode == SpeculationOptions::Mode::kAlways) {
      n_best = n;
      continue;
    }
    if (rows_ms <= 0) break;  // the costs are not known yet
    double added_ms = row_costs_.ms(n_base + n, row_ms) - rows_ms;
    // Prompts would use these rows.
    if (room.n_prompts > 0) added_ms = std::max(added_ms, row_ms * n);
    added_ms += attention_ms * n;
    if (added_ms > kMaxAddedShare * base_ms) break;
    if (1 + added_ms / base_ms > kMaxSlowdown * min_expected(plan, room)) continue;
    const double net = gain - n_in_step * std::log(1 + added_ms / base_ms);
    if (net <= most) continue;
    most = net;
    n_best = n;
  }
  return n_best;
}

// --- costs ---

void Speculator::observe(const StepPlan& plan, double ms, CostModel& costs) {
  const bool has_draft_tokens = plan.work.n_rows > plan.plain_work.n_rows;
  if (plan.n_prompt_rows > 0) return costs.observe(plan.work, ms);
  // The context's share is uncertain at first; at least half of the time is attributed to the rows.
  const double rows_ms = std::max(ms - context_ms(plan.work, costs), ms / 2);
  const double row_ms = costs.row_ms();
  row_costs_.observe(plan.work.n_rows, rows_ms);
  if (!has_draft_tokens) return costs.observe(plan.work, ms);
  // Rows of drafts are nearly free. The cost model must not conclude that prompt rows are.
  const double plain_ms =
      row_costs_.ms(plan.plain_work.n_rows, row_ms) + context_ms(plan.plain_work, costs);
  const double all_ms = row_costs_.ms(plan.work.n_rows, row_ms) + context_ms(plan.work, costs);
  costs.observe(plan.plain_work, ms * plain_ms / all_ms);
}

}  // namespace kvik
