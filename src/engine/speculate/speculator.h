#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/cost_model.h"
#include "engine/speculate/cached_page_drafter.h"
#include "engine/speculate/draft_token.h"
#include "engine/speculate/drafter.h"
#include "engine/speculate/forced_drafter.h"
#include "engine/speculate/row_costs.h"
#include "engine/speculate/speculation_options.h"
#include "engine/speculate/suffix_drafter.h"
#include "engine/step_plan.h"

namespace kvik {

// Proposes draft tokens for decoding sequences and chooses those that a step verifies. They become
// further rows of their sequences, and the logits of a row yield the following token: an accepted
// draft token saves a step, a rejected one costs a row.
//
// kAuto maximizes the product of all sequences' speeds (proportional fairness, Kelly et al. 1998):
// a longer step slows every sequence in it, including prompts. No sequence becomes slower by more
// than a quarter because of the drafts of others. The expected number of accepted tokens follows
// from the acceptance probabilities of consecutive draft tokens. These are measured for each
// request, also for proposals that are not verified. Engine thread only.
class Speculator {
 public:
  // Borrows the cache.
  Speculator(const SpeculationOptions& options, const KvCache& kv);

  // Call before a sequence releases its pages.
  void release(Sequence& sequence);

  // The room for draft rows in a step.
  struct Room {
    uint32_t n_rows = 0;     // besides those planned
    uint32_t n_prompts = 0;  // prompts that wait for this step to end
  };
  // Chooses SpeculationState::draft for the entries of a plan that contains only decodes. n_max
  // is, for each entry, the number of draft tokens for which it has pages.
  void choose(const StepPlan& plan, std::span<const uint32_t> n_max, const Room& room,
              const CostModel& costs);

  // Truncates a sequence's draft to its first n tokens.
  void shorten(Sequence& sequence, uint32_t n) { sequence.speculation.draft.resize(n); }

  // Learns from the time of a step. Its sequences may have ended. Passes the costs of all rows
  // but those of drafts on to `costs`.
  void observe(const StepPlan& plan, double ms, CostModel& costs);

 private:
  // A sequence whose draft tokens compete for rows.
  struct Candidate {
    Sequence* sequence = nullptr;
    const Draft* draft = nullptr;
    const Acceptance* acceptance = nullptr;
    double value = 0;  // expected number of accepted tokens of the draft
    uint32_t n_max = 0;
    uint32_t n_taken = 0;
    double all_accepted = 1;  // probability that all draft tokens taken so far are accepted
    double expected = 1;      // expected number of tokens from this step
    // Returns the probability that all tokens taken and one more are accepted, or 0 if there is no
    // further one.
    double next_chance() const;
    void take();
  };

  void begin(Sequence& sequence, uint32_t n_max);
  void propose(Candidate& candidate, DraftSource source);
  static bool wants_model(const Candidate& candidate);
  void propose_with_model(const StepPlan& plan, const CostModel& costs);
  uint32_t n_model_tokens(const StepPlan& plan, const CostModel& costs);
  void learn(Sequence& sequence);
  double expected(const Sequence& sequence, const Draft& draft) const;
  Candidate* best_candidate();
  double min_expected(const StepPlan& plan, const Room& room) const;
  uint32_t n_worthwhile(const StepPlan& plan, const Room& room, const CostModel& costs);

  SpeculationOptions options_;
  SuffixDrafter suffix_;
  ResumeDrafter resume_;
  ForcedDrafter forced_;
  std::optional<CachedPageDrafter> chains_;       // absent if speculation is off
  std::array<Drafter*, kDraftSources> drafters_;  // by DraftSource; null: none
  RowCosts row_costs_;

  // Scratch of the step being planned, kept so that a step allocates nothing.
  std::vector<Candidate> candidates_;
  std::vector<Candidate*> order_;  // owners of the chosen draft tokens, in order
  std::vector<Sequence*> asked_;   // sequences for which the model drafts
  uint64_t n_steps_without_model_ = 0;
};

}  // namespace kvik
