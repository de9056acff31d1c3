#pragma once

#include <cstdint>
#include <vector>

#include "engine/cost_model.h"
#include "engine/schedule/prompt_sharing.h"
#include "engine/schedule/running_set.h"
#include "engine/schedule/scheduler_options.h"
#include "engine/sequence.h"
#include "engine/speculate/speculator.h"
#include "engine/step_plan.h"
#include "kv/kv_cache.h"

namespace kvik {

// Decides how many rows each running sequence gets in a step. Writes Sequence::last_served_step.
// Engine thread only.
//
// Decoding comes first: every sequence whose prompt is computed gets its next token. Then prompts
// fill the rest of the ITL target, by the estimate of the cost model. They get at least a quarter
// of the step, and there is no limit if no sequence decodes. If more prompts are pending than can
// be computed soon, steps take up to 1.7 times the target, because on a saturated machine delaying
// prompts does not increase the number of generated tokens. A prompt that the step completes counts
// as a decoding sequence.
//
// Prompts are ordered by priority, then by the service that their tenant has received, then by due
// time: arrival plus the time that the prompt would take alone. A short prompt, or one with many
// cached tokens, therefore does not wait for all of a long one, and a long one does not starve.
// Priorities among a tenant's own requests only exchange positions among these. Every prompt
// advances within kMaxWaitSteps + n_running steps: the prompt that has waited longest beyond
// kMaxWaitSteps gets up to a quarter of the prompt rows.
class StepPlanner {
 public:
  static constexpr uint64_t kMaxWaitSteps = 32;  // steps

  // All borrowed.
  struct Context {
    KvCache& kv;
    const CostModel& costs;
    const RunningSet& running;
    CachedTokenCounter& reuse;
    Speculator& speculator;
  };
  StepPlanner(const Context& context, const SchedulerOptions& options);

  // Plans step number `step`. The plan is valid until the next call.
  const StepPlan& plan(uint64_t step);
  // Returns the last plan.
  const StepPlan& last() const { return plan_; }

 private:
  // The remaining part of a step, for all prompts or for one.
  struct Budget {
    uint32_t tokens = 0;
    double ms = 0;
    bool is_guaranteed = false;  // gets at least one token
  };

  void plan_decodes();
  void plan_drafts();
  uint32_t draft_room(const Sequence& sequence) const;
  bool drafts_in_pages() const {
    return options_.speculation.drafts_in_pages &&
           options_.speculation.mode != SpeculationOptions::Mode::kOff;
  }
  // Reserves pages for up to n_max draft tokens of the sequence.
  void make_draft_room(Sequence& sequence, uint32_t n_max);
  void plan_prompts();
  double prompt_budget_ms() const;
  Sequence& choose_favored();
  Sequence& longest_unserved() const;
  void plan_prompt(Sequence& sequence, const Budget& budget);
  void compute(Sequence& sequence, const Budget& budget);
  // Takes over pages that other sequences have computed since the sequence was admitted.
  void adopt(Sequence& sequence);
  void take_loaded(Sequence& sequence);

  KvCache& kv_;
  const CostModel& costs_;
  const RunningSet& running_;
  Speculator& speculator_;
  CachedTokenCounter& reuse_;
  PromptSharing sharing_;
  const SchedulerOptions options_;
  uint64_t step_ = 0;

  // The step being planned. The members are kept so that a step allocates nothing.
  StepPlan plan_;
  std::vector<uint32_t> draft_rooms_;  // by entry of the plan: draft tokens that it may have
  std::vector<Sequence*> prompts_;
  Budget left_;
};

}  // namespace kvik
