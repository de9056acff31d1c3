#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/request/sequence.h"
#include "engine/schedule/cost_model.h"
#include "engine/schedule/snapshot_policy.h"
#include "engine/schedule/step_plan.h"
#include "engine/schedule/tenants.h"
#include "engine/speculate/speculation_options.h"
#include "kv/kv_cache.h"
#include "tier/tier_link.h"

namespace kvik {

class Speculator;

struct SchedulerOptions {
  uint32_t max_step_tokens = 512;
  uint32_t max_running = 64;
  std::optional<Duration> itl_target = {};  // of a step in which somebody decodes; absent: no limit
  SpeculationOptions speculation = {.mode = SpeculationOptions::Mode::kOff};
};

// Decides what each step computes.
//
// Decode first: every sequence that has its prompt computed gets its next token. Then prompts fill
// what is left of the ITL target, by the cost model; never less than a quarter of the step, and no
// limit where nobody decodes. Where more prompts are pending than that does soon, steps stretch to
// 1.7 times the target: a full machine makes no more tokens by letting prompts wait. A prompt that
// the step completes counts as somebody who decodes.
//
// Prompts come by priority, by what their tenant was served, then by due time: arrival plus
// the time that the prompt would take alone, so that a short one, or one of which the cache knows
// most, does not wait for the whole of a long one, and a long one does not wait for ever. Where a
// priority ranks among its tenant's own alone, these change places among themselves. Every
// prompt advances within kPatience + n_running steps: the one that waited longest beyond kPatience
// gets up to a quarter of what prompts get.
//
// A page that a prompt planned in the same step computes is waited for, not computed a second time:
// as long as that one advances, for kPageTokens steps at most; then, or where it ends early, the
// next in line computes it. Where pages are private until two know them, a tenant waits for its own
// prompts, and for others where two of them know the page by then.
//
// Where sequences have a state, nobody goes on from others' pages but behind a snapshot: the prompt
// that computes what another shares keeps its state where they part, and the other waits for it.
//
// Admission is by priority, then those that were preempted, then by what the tenant was served,
// then by due time, which here is arrival plus three times what the prompt would take: to compute
// again what was given up costs those behind more than it brings. What the cache has of a waiting
// prompt is given up last. The first that does not fit holds up those behind it, and so does one
// before which a second of prompts no longer than it is pending. It needs pages for the whole
// prompt and a watermark of one: what answers will need is better used meanwhile and taken back by
// preemption, which costs little where pages stay findable. Where a running one cannot grow, the
// last by priority and arrival gives all its pages back and waits; the first always advances, so
// every sequence ends. Engine thread only.
class Scheduler {
 public:
  static constexpr uint64_t kPatience = 32;  // steps
  static constexpr uint64_t kWatermark = 1;  // pages

  Scheduler(KvCache& kv, const SchedulerOptions& options);
  ~Scheduler();

  // Where sequences find pages that memory lacks; outlives the scheduler.
  void set_tier(TierLink* tier) { tier_ = tier; }

  void add(std::unique_ptr<Sequence> sequence);

  // The sequences of the next step, each with pages for its new tokens. Empty: nothing to do.
  const StepPlan& plan();
  // Behind the step that was planned last and its sampling: accepted[i] rows of entry i, at least
  // one, stand; the others are as if they had not been computed (commit_rows()).
  void commit(const StepPlan& plan, std::span<const uint32_t> accepted);
  // The token behind all that a sequence has: a later step computes its K and V.
  void append(Sequence& sequence, TokenId token);
  // What the step that was planned last took.
  void observe(Duration time);

  Sequence* find(RequestId id);
  Sequence* any();  // null where there is none
  // Takes a finished sequence out; nobody leases its pages when this returns.
  void remove(Sequence& sequence);

  uint32_t n_waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t n_running() const { return static_cast<uint32_t>(running_.size()); }
  // In the order of plan(): by priority, then as they came.
  std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
  // Returns whether several tenants have sent requests.
  bool is_shared() const { return tenants_.is_shared(); }
  uint64_t n_preemptions() const { return n_preemptions_; }
  // Of prompts: tokens that were computed, and those that were found.
  uint64_t n_prompt_tokens() const { return n_prompt_tokens_; }
  uint64_t n_found_tokens() const { return n_found_tokens_; }
  const CostModel& costs() const { return costs_; }

 private:
  // What a step, or a prompt in it, may still take.
  struct Budget {
    uint32_t tokens = 0;
    double ms = 0;
    bool is_for_favoured = false;  // a token at least
  };
  using Sequences = std::vector<std::unique_ptr<Sequence>>;
  static constexpr uint32_t kFetchAhead = 4;  // sequences whose pages are brought at once

  void admit();
  Sequences::iterator next_waiting();
  Sequences::iterator next_waiting_after(Sequences::iterator passed);
  void assign_turns();
  void take_turn(Sequence& sequence);
  bool is_fetched(Sequence& sequence);
  bool waits_for_state(Sequence& sequence);
  void plan_marks(Sequence& sequence);
  void keep_marked(Sequence& sequence);
  void keep_end(Sequence& sequence);
  void look_up(Sequence& sequence);
  bool is_blocked(const Sequence& sequence) const;
  bool must_let_pass(const Sequence& sequence) const;
  double pending_ms(const Sequence& sequence) const;
  bool may_run(const Sequence& sequence) const;
  uint64_t pages_held(uint64_t n_tokens) const;
  bool open(Sequence& sequence);
  void start(std::unique_ptr<Sequence> sequence);
  void assign_seats(const Tenant& tenant);

  void grow();
  bool grow_or_preempt(Sequence& sequence);
  void preempt_last();
  void let_go(Sequence& sequence);

  void plan_decodes();
  void plan_drafts();
  uint32_t draft_room(const Sequence& sequence) const;
  bool drafts_in_pages() const {
    return options_.speculation.drafts_in_pages &&
           options_.speculation.mode != SpeculationOptions::Mode::kOff;
  }
  void make_draft_room(Sequence& sequence, uint32_t n_most);
  void plan_prompts();
  double prompt_budget_ms() const;
  Sequence& choose_favoured();
  Sequence& longest_unserved() const;
  void plan_prompt(Sequence& sequence, const Budget& budget);
  void compute(Sequence& sequence, const Budget& budget);
  void adopt(Sequence& sequence);
  void adopt_filling_page(Sequence& sequence, std::span<const TokenId> tokens);
  KnownBy mark_of(const Sequence& sequence) const {
    return kv_.mark_of(sequence.table.owner.tenant);
  }
  bool will_compute_for(const Sequence& other, const Sequence& sequence) const;
  bool will_find(const Sequence& sequence, KnownBy computed_by) const;
  Sequence& most_advanced_alike(Sequence& sequence) const;
  bool is_planned(const Sequence& sequence) const;
  bool is_computed_in_this_step(const Sequence& sequence) const;
  void count_found(Sequence& sequence, uint32_t n_cached);
  void forget_found(Sequence& sequence);

  KvCache& kv_;
  TierLink* tier_ = nullptr;
  SchedulerOptions options_;
  TenantLedger tenants_;
  CostModel costs_;
  SnapshotPolicy snapshots_;
  std::unique_ptr<Speculator> speculator_;
  Sequences waiting_;  // as they came
  Sequences running_;  // by priority, then as they came
  // Who did not fit at the last try, with how many pages to be had.
  struct Blocked {
    RequestId id{};
    uint32_t n_available = 0;
  };
  Blocked blocked_;
  uint64_t n_added_ = 0;
  uint64_t n_steps_ = 0;
  uint64_t n_preemptions_ = 0;
  uint64_t n_prompt_tokens_ = 0;
  uint64_t n_found_tokens_ = 0;

  // Of the step being planned; kept so that a step allocates nothing.
  StepPlan plan_;
  std::vector<uint32_t> draft_rooms_;
  std::vector<Sequence*> prompts_;
  std::vector<Sequence*> in_order_;
  Budget left_;
};

}  // namespace kvik
