#include "engine/schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "engine/scheduler_rig.h"

namespace kvik {
namespace {

// Returns random numbers below n.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }

 private:
  std::mt19937 engine_;
};

// Checks the invariants of every plan.
void expect_invariants(Rig& rig, const SchedulerOptions& options, const StepPlan& plan) {
  uint32_t n_tokens = 0;
  bool prompts_began = false;
  std::set<const Sequence*> planned;
  for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
    EXPECT_TRUE(std::ranges::count(rig.alive(), sequence) == 1) << "planned, but gone";
    EXPECT_TRUE(planned.insert(sequence).second) << "planned twice";
    EXPECT_GE(n_new, 1u);
    EXPECT_LE(n_new, sequence->n_pending());
    EXPECT_LE(n_new, std::max(1u, sequence->request.max_chunk));
    EXPECT_GE(sequence->table.n_pages() * kPageTokens, sequence->n_cached + n_new);
    n_tokens += n_new;
    prompts_began = prompts_began || !sequence->is_decoding();
    EXPECT_EQ(prompts_began, !sequence->is_decoding()) << "a decode after a prompt";
  }
  EXPECT_LE(n_tokens, options.max_step_tokens);

  uint32_t n_pages = 0;
  for (Sequence* sequence : rig.alive()) {
    n_pages += sequence->table.n_pages();
    EXPECT_EQ(rig.scheduler().find(sequence->id), sequence) << "lost";
    EXPECT_LE(sequence->n_cached, sequence->table.n_pages() * kPageTokens);
    if (sequence->is_decoding() && sequence->table.n_pages() > 0) {
      EXPECT_TRUE(planned.contains(sequence)) << "a decode was left out";
    }
  }
  EXPECT_EQ(rig.n_pages_held(), n_pages);
  EXPECT_EQ(rig.scheduler().n_running() + rig.scheduler().n_waiting(), rig.alive().size());
  EXPECT_LE(rig.scheduler().n_running(), options.max_running);
}

// Counts the steps in which each running sequence got no row, and checks their number.
class Patience {
 public:
  void look(Rig& rig, const StepPlan& plan, const SchedulerOptions& options) {
    for (Sequence* sequence : rig.alive()) {
      uint64_t& n = n_steps_[sequence];
      const bool is_planned = std::ranges::any_of(
          plan.entries, [&](const auto& entry) { return entry.sequence == sequence; });
      n = is_planned || sequence->table.n_pages() == 0 ? 0 : n + 1;
      // A prompt that has waited beyond the limit is next, except for those that have waited
      // longer. All prompts of the rig differ, so none waits for pages of another.
      EXPECT_LE(n, Scheduler::kMaxWaitSteps + options.max_running) << "starved";
    }
  }
  void forget(Sequence* sequence) { n_steps_.erase(sequence); }

 private:
  std::map<Sequence*, uint64_t> n_steps_;
};

TEST(Scheduler, random_operations_lose_no_sequence_and_no_page_and_starve_nobody) {
  uint64_t n_preemptions = 0;
  const uint32_t n_seeds = std::getenv("KVIK_TEST_LONG") ? 2000 : 200;
  for (uint32_t seed = 0; seed < n_seeds; ++seed) {
    Random random(seed);
    const uint32_t n_pages = 2 + random.below(12);
    const uint32_t n_running = 1 + random.below(8);
    SchedulerOptions options{.max_step_tokens = n_running + random.below(60),
                             .max_running = n_running};
    if (random.below(2) == 0) options.itl_target = from_ms(1 + random.below(60));
    Rig rig(n_pages, options);
    Patience patience;
    if (random.below(3) == 0) {  // some rows are not accepted
      rig.on_sampled = [&](const StepPlan&, std::vector<uint32_t>& accepted) {
        for (uint32_t& rows : accepted) {
          if (random.below(8) == 0) rows = 1 + random.below(rows);
        }
      };
    }
    rig.cost_ms = [&](const StepWork& work) { return 5 + 1.0 * work.n_rows + random.below(5); };
    rig.on_plan = [&](const StepPlan& plan) {
      expect_invariants(rig, options, plan);
      ASSERT_FALSE(plan.empty());
      patience.look(rig, plan, options);
    };
    const auto add = [&] {
      const uint32_t n_max = n_pages * kPageTokens;
      const uint32_t n_prompt = 1 + random.below(random.below(2) == 0 ? 40 : n_max - 1);
      patience.forget(
          rig.add({.n_prompt = n_prompt,
                   .max_tokens = 1 + random.below(std::min(100u, n_max - n_prompt)),
                   .max_chunk = random.below(3) == 0 ? 1 + random.below(20) : UINT32_MAX,
                   .cache = random.below(8) == 0 ? Request::Cache::kOff : Request::Cache::kUse,
                   .tenant = std::string(random.below(3), 'x'),
                   .priority = static_cast<int32_t>(random.below(3))}));
    };
    for (int i = 0; i < 1500; ++i) {
      if (rig.alive().size() < 12 && random.below(4) == 0) add();
      if (!rig.alive().empty() && random.below(40) == 0) {
        rig.remove(rig.alive()[random.below(static_cast<uint32_t>(rig.alive().size()))]);
      }
      if (!rig.alive().empty()) rig.step();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    for (int i = 0; !rig.alive().empty(); ++i) {
      ASSERT_LT(i, 100000) << "seed " << seed << ": some never end";
      rig.step();
    }
    EXPECT_EQ(rig.n_pages_held(), 0u);
    EXPECT_EQ(rig.pages().total(), n_pages);
    n_preemptions += rig.scheduler().n_preemptions();
  }
  EXPECT_GT(n_preemptions, 1000u);  // preemption did occur
}

}  // namespace
}  // namespace kvik
