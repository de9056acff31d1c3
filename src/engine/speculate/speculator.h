#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/cost_model.h"
#include "engine/speculate/chain_drafter.h"
#include "engine/speculate/drafter.h"
#include "engine/speculate/forced_drafter.h"
#include "engine/speculate/guess.h"
#include "engine/speculate/row_costs.h"
#include "engine/speculate/speculation_options.h"
#include "engine/speculate/suffix_drafter.h"
#include "engine/step_plan.h"

namespace kvik {

// Guesses what comes next in sequences that decode, and which guesses a step computes beside the
// rows that it has: as further rows of their sequences, whose logits tell what the next tokens
// are, so that a guess that was right saves a step and one that was wrong costs a row.
//
// kAuto computes what makes the product of all sequences' speeds largest (proportional fairness,
// Kelly et al. 1998): a step that takes longer slows everybody in it, prompts too, and nobody by
// more than a quarter for the sake of others. What a sequence may expect is the product of the
// chances of its guesses, one after the other; these are measured for each request, also where
// nothing is computed. Engine thread only.
class Speculator {
 public:
  // The cache is borrowed.
  Speculator(const SpeculationOptions& options, const KvCache& kv);

  // A sequence is about to give its pages back.
  void let_go(Sequence& sequence);

  // What a step has room for.
  struct Room {
    uint32_t n_rows = 0;     // beside those planned
    uint32_t n_prompts = 0;  // that wait for this step to end
  };
  // Chooses SpeculationState::draft of the entries of a plan in which nothing but decoding is
  // planned. n_most: for each entry, the draft tokens that it has pages for.
  void choose(const StepPlan& plan, std::span<const uint32_t> n_most, const Room& room,
              const CostModel& costs);

  // Cuts a sequence's draft to its first n tokens.
  void shorten(Sequence& sequence, uint32_t n) { sequence.speculation.draft.resize(n); }

  // What a step took; its sequences may be gone. Teaches the costs of all but guesses to `costs`.
  void observe(const StepPlan& plan, double ms, CostModel& costs);

 private:
  // A sequence whose guesses compete for rows.
  struct Candidate {
    Sequence* sequence = nullptr;
    const Draft* draft = nullptr;
    const Acceptance* acceptance = nullptr;
    double worth = 0;  // tokens to be expected of the draft
    uint32_t n_most = 0;
    uint32_t n_taken = 0;
    double all_true = 1;  // the chance of what is taken
    double expected = 1;  // tokens that the step makes of it
    // The chance that one guess more comes true; 0 where there is none.
    double next_chance() const;
    void take();
  };

  void begin(Sequence& sequence, uint32_t n_most);
  void propose(Candidate& candidate, GuessSource source);
  void ask_model(const StepPlan& plan, const CostModel& costs);
  uint32_t n_to_draft(const StepPlan& plan, const CostModel& costs);
  void learn(Sequence& sequence);
  double expected(const Sequence& sequence, const Draft& draft) const;
  Candidate* best_candidate();
  double least_expected(const StepPlan& plan, const Room& room) const;
  uint32_t n_that_pay(const StepPlan& plan, const Room& room, const CostModel& costs);

  SpeculationOptions options_;
  SuffixDrafter suffix_;
  ResumeDrafter resume_;
  ForcedDrafter forced_;
  std::optional<ChainDrafter> chains_;            // none where nothing is guessed
  std::array<Drafter*, kGuessSources> drafters_;  // by GuessSource; null where there is none
  RowCosts row_costs_;

  // Of the step being planned; kept so that a step allocates nothing.
  std::vector<Candidate> candidates_;
  std::vector<Candidate*> order_;  // whose next guess is taken, in turn
  std::vector<Sequence*> asked_;   // that the model drafts for
  uint64_t n_steps_without_model_ = 0;
};

}  // namespace kvik
