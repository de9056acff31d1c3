#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backend/cpu/cpu_memory.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::Pair;

// A scheduler over pages without contents; the test plays the model.
class Rig {
 public:
  Rig(uint32_t n_pages, const SchedulerOptions& options)
      : kv_(memory_, uint64_t{n_pages} * kPageBytes, kPageBytes), scheduler_(kv_, options) {}

  struct Wanted {
    uint32_t n_prompt = 1;
    uint32_t max_tokens = 1000;
    uint32_t max_chunk = UINT32_MAX;
    Request::Cache cache = Request::Cache::kUse;
    std::optional<TokenId> token = {};  // the prompt is made of; absent: one that nobody else has
    std::string tenant = {};
    int32_t priority = 0;
    double submitted_ms = 0;
  };
  Sequence* add(const Wanted& wanted) {
    Request request;
    request.prompt.assign(wanted.n_prompt, wanted.token.value_or(100 + TokenId(last_id_)));
    request.max_tokens = wanted.max_tokens;
    request.max_chunk = wanted.max_chunk;
    request.cache = wanted.cache;
    request.tenant = wanted.tenant;
    request.priority = wanted.priority;
    auto sequence = std::make_unique<Sequence>(RequestId{++last_id_}, std::move(request), nullptr,
                                               TimePoint{} + from_ms(wanted.submitted_ms));
    Sequence* borrowed = sequence.get();
    alive_.push_back(borrowed);
    scheduler_.add(std::move(sequence));
    return borrowed;
  }

  void remove(Sequence* sequence) {
    std::erase(alive_, sequence);
    scheduler_.remove(*sequence);
  }

  // Plans and plays one step: what is computed, a token behind each finished prompt or decode, the
  // end of those that have all theirs. Returns (id, n_new) as planned.
  std::vector<std::pair<uint64_t, uint32_t>> step() {
    std::vector<std::pair<uint64_t, uint32_t>> planned;
    const StepPlan& plan = scheduler_.plan();
    for (const auto& [sequence, n_new] : plan.entries) {
      planned.emplace_back(static_cast<uint64_t>(sequence->id), n_new);
    }
    if (on_plan) on_plan(plan);
    if (cost_ms) scheduler_.observe(from_ms(cost_ms(plan.work)));
    for (const auto& [sequence, n_new] : std::vector(plan.entries)) {
      sequence->n_cached += n_new;
      if (sequence->uses_cache()) {
        kv_.seal(sequence->table, sequence->root, sequence->cached_tokens());
      }
      if (sequence->n_pending() > 0) continue;
      sequence->tokens.push_back(8);
      if (sequence->request.cache == Request::Cache::kOff) sequence->n_cached = 0;
      if (sequence->n_generated() == sequence->request.max_tokens) remove(sequence);
    }
    return planned;
  }

  Scheduler& scheduler() { return scheduler_; }
  const PageCounts& pages() const { return kv_.counts(); }
  uint32_t n_pages_held() const { return kv_.counts().leased + kv_.counts().sealed; }
  // In the order they came.
  const std::vector<Sequence*>& alive() const { return alive_; }

  // Teaches the cost model before anything is planned.
  void teach() {
    for (uint32_t n = 1; n <= 512; n *= 2) {
      add({.n_prompt = n, .max_tokens = 3});
      while (!alive_.empty()) step();
    }
  }
  uint64_t n_found_tokens() const { return scheduler_.n_found_tokens(); }

  std::function<void(const StepPlan&)> on_plan;
  std::function<double(const StepWork&)> cost_ms;  // of a step; absent: it is told nothing

 private:
  static constexpr size_t kPageBytes = 64;
  cpu::CpuMemory memory_;
  KvCache kv_;
  Scheduler scheduler_;
  std::vector<Sequence*> alive_;
  uint64_t last_id_ = 0;
};

TEST(Scheduler, with_nothing_to_do_the_plan_is_empty) {
  Rig rig(4, {});
  EXPECT_TRUE(rig.scheduler().plan().empty());
}

TEST(Scheduler, a_prompt_is_computed_whole_where_it_fits_the_step) {
  Rig rig(4, {.max_step_tokens = 100});
  rig.add({.n_prompt = 40});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 40)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1)));
}

TEST(Scheduler, a_long_prompt_is_cut_to_the_steps_tokens) {
  Rig rig(8, {.max_step_tokens = 32});
  rig.add({.n_prompt = 70});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 32)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 32)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 6)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1)));
}

TEST(Scheduler, a_request_may_want_smaller_chunks) {
  Rig rig(8, {.max_step_tokens = 32});
  rig.add({.n_prompt = 7, .max_chunk = 3});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 3)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 3)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1)));
}

TEST(Scheduler, decodes_come_before_prompts_also_before_older_ones) {
  Rig rig(16, {.max_step_tokens = 32});
  rig.add({.n_prompt = 100});
  rig.add({.n_prompt = 2});
  rig.add({.n_prompt = 2});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 2), Pair(3, 2), Pair(1, 28)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 1), Pair(1, 30)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 1), Pair(1, 30)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 1), Pair(1, 12)));
  rig.add({.n_prompt = 60});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 29)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1), Pair(4, 29)));
}

TEST(Scheduler, the_prompt_that_needs_least_goes_first_and_a_quarter_is_kept_for_the_oldest) {
  Rig rig(16, {.max_step_tokens = 10});
  rig.add({.n_prompt = 12});
  rig.add({.n_prompt = 3});
  rig.add({.n_prompt = 8});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 3), Pair(3, 5), Pair(1, 2)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 3), Pair(1, 6)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 1), Pair(1, 4)));
}

TEST(Scheduler, prompts_of_a_size_are_computed_in_the_order_they_came) {
  Rig rig(16, {.max_step_tokens = 10});
  for (int i = 0; i < 3; ++i) rig.add({.n_prompt = 8});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 8), Pair(2, 2)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 6), Pair(3, 3)));
}

TEST(Scheduler, no_more_run_than_may) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 2});
  for (int i = 0; i < 4; ++i) rig.add({.n_prompt = 1, .max_tokens = 2});
  rig.step();
  EXPECT_EQ(rig.scheduler().n_running(), 2u);
  EXPECT_EQ(rig.scheduler().n_waiting(), 2u);
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(3, 1), Pair(4, 1)));
}

TEST(Scheduler, a_prompt_waits_until_its_pages_and_one_to_grow_are_free) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* first = rig.add({.n_prompt = 33});
  rig.add({.n_prompt = 33});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 33)));  // 2 pages free, 3 wanted
  EXPECT_EQ(rig.n_pages_held(), 2u);
  rig.remove(first);
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 33)));
}

TEST(Scheduler, a_prompt_that_another_computed_is_leased_not_computed) {
  Rig rig(16, {.max_step_tokens = 512});
  Sequence* first = rig.add({.n_prompt = 70});
  rig.step();
  rig.remove(first);
  Sequence* same = rig.add({.n_prompt = 70, .token = 100});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1)));  // the last token's logits are wanted
  EXPECT_EQ(same->usage.cached_tokens, 69u);
  EXPECT_EQ(rig.scheduler().n_found_tokens(), 69u);
}

TEST(Scheduler, alone_a_sequence_may_have_every_page) {
  Rig rig(4, {.max_step_tokens = 512});
  rig.add({.n_prompt = 128});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 128)));
}

TEST(Scheduler, a_large_prompt_is_not_overtaken_by_small_ones) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* first = rig.add({.n_prompt = 64});
  rig.add({.n_prompt = 96});
  rig.add({.n_prompt = 1});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 64)));
  rig.remove(first);
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 96)));
}

TEST(Scheduler, where_a_sequence_cannot_grow_the_youngest_gives_way) {
  Rig rig(4, {.max_step_tokens = 512});
  rig.add({.n_prompt = 32});
  rig.add({.n_prompt = 32});
  Sequence* youngest = rig.add({.n_prompt = 20});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(3, 20), Pair(1, 32), Pair(2, 32)));
  // Both older ones want a second page, and one is free.
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_EQ(rig.scheduler().n_preemptions(), 1u);
  EXPECT_EQ(rig.scheduler().n_waiting(), 1u);
  EXPECT_EQ(youngest->n_cached, 0u);
  EXPECT_EQ(youngest->table.n_pages(), 0u);
  EXPECT_EQ(youngest->n_tokens(), 21u);  // what was generated stays
}

TEST(Scheduler, a_preempted_sequence_computes_prompt_and_answer_again_and_goes_on) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* first = rig.add({.n_prompt = 32});
  Sequence* second = rig.add({.n_prompt = 32});
  rig.add({.n_prompt = 20});
  rig.step();
  rig.step();
  rig.remove(first);
  rig.remove(second);
  EXPECT_THAT(rig.step(), ElementsAre(Pair(3, 21)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(3, 1)));
}

TEST(Scheduler, the_preempted_wait_before_those_that_never_ran) {
  Rig rig(4, {.max_step_tokens = 512, .max_running = 3});
  Sequence* first = rig.add({.n_prompt = 32});
  rig.add({.n_prompt = 32});
  rig.add({.n_prompt = 20});
  rig.add({.n_prompt = 5});
  rig.step();
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  rig.remove(first);
  // 2 pages are free: the third's one and one to grow, then no more.
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 21)));
}

TEST(Scheduler, the_youngest_gives_way_itself_where_it_cannot_grow) {
  Rig rig(3, {.max_step_tokens = 512});
  rig.add({.n_prompt = 31});
  Sequence* second = rig.add({.n_prompt = 30});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 30), Pair(1, 31)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));  // the first took the last page
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1)));
  EXPECT_EQ(rig.scheduler().n_preemptions(), 1u);
  EXPECT_EQ(second->table.n_pages(), 0u);
}

TEST(Scheduler, a_planned_decode_that_gives_way_to_an_older_one_leaves_the_plan) {
  // Without the cache the older one is planned with the prompts, behind the decode.
  Rig rig(3, {.max_step_tokens = 512});
  rig.add({.n_prompt = 32, .cache = Request::Cache::kOff});
  rig.add({.n_prompt = 32});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 32), Pair(2, 32)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 33)));
  EXPECT_EQ(rig.scheduler().n_preemptions(), 1u);
}

TEST(Scheduler, without_the_cache_every_step_computes_all_tokens) {
  Rig rig(4, {.max_step_tokens = 512});
  rig.add({.n_prompt = 5, .cache = Request::Cache::kOff});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 5)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 6)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 7)));
}

TEST(Scheduler, finds_who_waits_and_who_runs) {
  Rig rig(4, {.max_step_tokens = 512, .max_running = 1});
  EXPECT_EQ(rig.scheduler().any(), nullptr);
  Sequence* running = rig.add({});
  Sequence* waiting = rig.add({});
  rig.step();
  EXPECT_EQ(rig.scheduler().find(RequestId{1}), running);
  EXPECT_EQ(rig.scheduler().find(RequestId{2}), waiting);
  EXPECT_EQ(rig.scheduler().find(RequestId{3}), nullptr);
  rig.remove(waiting);
  EXPECT_EQ(rig.scheduler().find(RequestId{2}), nullptr);
  EXPECT_EQ(rig.scheduler().any(), running);
}

TEST(Scheduler, a_removed_sequences_pages_are_free_at_once) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* sequence = rig.add({.n_prompt = 50});
  rig.step();
  EXPECT_EQ(rig.n_pages_held(), 2u);
  rig.remove(sequence);
  EXPECT_EQ(rig.n_pages_held(), 0u);
}

// Numbers below n.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }

 private:
  std::mt19937 engine_;
};

// What holds for every plan, whatever came before.
void expect_invariants(Rig& rig, const SchedulerOptions& options, const StepPlan& plan) {
  uint32_t n_tokens = 0;
  bool prompts_began = false;
  std::set<const Sequence*> planned;
  for (const auto& [sequence, n_new] : plan.entries) {
    EXPECT_TRUE(std::ranges::count(rig.alive(), sequence) == 1) << "planned, but gone";
    EXPECT_TRUE(planned.insert(sequence).second) << "planned twice";
    EXPECT_GE(n_new, 1u);
    EXPECT_LE(n_new, sequence->n_pending());
    EXPECT_LE(n_new, std::max(1u, sequence->request.max_chunk));
    EXPECT_GE(sequence->table.n_pages() * kPageTokens, sequence->n_cached + n_new);
    n_tokens += n_new;
    prompts_began = prompts_began || !sequence->is_decoding();
    EXPECT_EQ(prompts_began, !sequence->is_decoding()) << "a decode behind a prompt";
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

// How many steps each sequence that runs has been without a token, and whether that is too many.
class Patience {
 public:
  void look(Rig& rig, const StepPlan& plan, const SchedulerOptions& options) {
    for (Sequence* sequence : rig.alive()) {
      uint64_t& n = n_steps_[sequence];
      const bool is_planned = std::ranges::any_of(
          plan.entries, [&](const auto& entry) { return entry.sequence == sequence; });
      n = is_planned || sequence->table.n_pages() == 0 ? 0 : n + 1;
      // Beyond its patience a prompt is next but for those that waited longer. All prompts of the
      // rig differ, so none waits for another's pages.
      EXPECT_LE(n, Scheduler::kPatience + options.max_running) << "starved";
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
    if (random.below(2) == 0) options.watermark = SchedulerOptions::Watermark::kOnePage;
    Rig rig(n_pages, options);
    Patience patience;
    rig.cost_ms = [&](const StepWork& work) { return 5 + 1.0 * work.n_rows + random.below(5); };
    rig.on_plan = [&](const StepPlan& plan) {
      expect_invariants(rig, options, plan);
      ASSERT_FALSE(plan.empty());
      patience.look(rig, plan, options);
    };
    const auto add = [&] {
      const uint32_t n_most = n_pages * kPageTokens;
      const uint32_t n_prompt = 1 + random.below(random.below(2) == 0 ? 40 : n_most - 1);
      patience.forget(
          rig.add({.n_prompt = n_prompt,
                   .max_tokens = 1 + random.below(std::min(100u, n_most - n_prompt)),
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
  EXPECT_GT(n_preemptions, 1000u);  // the hard case did occur
}

// 10 ms a step and 1 ms a row.
double plain_cost(const StepWork& work) { return 10.0 + work.n_rows; }

TEST(SchedulerTarget, prompts_fill_what_decodes_leave_of_it) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.teach();
  rig.add({.n_prompt = 3});
  rig.step();
  Sequence* prompt = rig.add({.n_prompt = 400});
  const auto planned = rig.step();
  ASSERT_EQ(planned.size(), 2u);
  EXPECT_NEAR(planned[1].second, 39, 4);  // 50 - 11
  while (prompt->n_pending() > 40) EXPECT_NEAR(rig.step()[1].second, 37, 6);
}

TEST(SchedulerTarget, where_nobody_decodes_there_is_no_limit) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.teach();
  rig.add({.n_prompt = 700});
  EXPECT_EQ(rig.step()[0].second, 512u);
}

TEST(SchedulerTarget, where_decodes_alone_pass_it_prompts_keep_a_quarter_of_the_step) {
  Rig rig(256, {.max_step_tokens = 512, .max_running = 200, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.teach();
  for (int i = 0; i < 80; ++i) rig.add({.n_prompt = 1});
  while (rig.step().size() < 80) {
  }
  rig.add({.n_prompt = 400});
  const auto planned = rig.step();
  ASSERT_EQ(planned.size(), 81u);
  EXPECT_NEAR(planned.back().second, 30, 4);  // of 90 + 30 ms
}

TEST(SchedulerTarget, a_prompt_advances_by_a_token_however_little_is_left) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(1)});
  rig.cost_ms = [](const StepWork& work) { return 100.0 * work.n_rows; };
  rig.teach();
  rig.add({.n_prompt = 3});
  rig.step();
  rig.add({.n_prompt = 400});
  EXPECT_EQ(rig.step()[1].second, 1u);
}

TEST(SchedulerTarget, a_prompt_that_a_step_completes_is_not_held_up_by_others_behind_it) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.teach();
  for (int i = 0; i < 4; ++i) rig.add({.n_prompt = 100});
  EXPECT_EQ(rig.step().size(), 1u);  // 110 ms; its token is not kept for 400
}

TEST(SchedulerTarget, a_short_prompt_overtakes_a_long_one_that_came_just_before) {
  Rig rig(64, {.max_step_tokens = 32, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.teach();
  Sequence* first = rig.add({.n_prompt = 900, .submitted_ms = 0});
  rig.step();
  Sequence* second = rig.add({.n_prompt = 20, .submitted_ms = 100});
  rig.step();
  EXPECT_EQ(second->n_generated(), 1u);
  EXPECT_EQ(first->n_generated(), 0u);
}

TEST(SchedulerTarget, a_long_prompt_advances_whatever_short_ones_come) {
  Rig rig(200, {.max_step_tokens = 32, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.teach();
  Sequence* const prompt = rig.add({.n_prompt = 900});
  for (int i = 0; i < 200; ++i) {
    rig.add({.n_prompt = 30, .max_tokens = 1, .submitted_ms = i * 40.0});
    rig.step();
  }
  EXPECT_GE(prompt->n_generated(), 1u);
}

TEST(SchedulerOrder, a_lower_priority_number_is_admitted_and_computed_first) {
  Rig rig(16, {.max_step_tokens = 40, .max_running = 3});
  rig.add({.n_prompt = 30, .priority = 1});
  rig.add({.n_prompt = 30, .priority = 2});
  rig.add({.n_prompt = 30, .priority = 0});
  rig.add({.n_prompt = 30, .priority = -1});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(4, 30), Pair(3, 10)));
  EXPECT_THAT(rig.step(), ElementsAre(Pair(4, 1), Pair(3, 20), Pair(1, 19)));
  EXPECT_EQ(rig.scheduler().n_waiting(), 1u);
}

TEST(SchedulerOrder, the_lowest_class_gives_its_pages_back_first) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* low = rig.add({.n_prompt = 20, .priority = 1});
  rig.step();
  rig.add({.n_prompt = 32});
  rig.add({.n_prompt = 32});
  rig.step();
  rig.step();
  EXPECT_EQ(rig.scheduler().n_preemptions(), 1u);
  EXPECT_EQ(low->table.n_pages(), 0u);
}

TEST(SchedulerOrder, tenants_are_served_alike_whatever_they_send) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 4});
  std::map<std::string, uint64_t> n_computed;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new] : plan.entries) {
      n_computed[sequence->request.tenant] += n_new;
    }
  };
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 6; ++k) rig.add({.n_prompt = 100, .max_tokens = 1, .tenant = "floods"});
    if (i % 2 == 0) rig.add({.n_prompt = 100, .max_tokens = 1, .tenant = "asks"});
    rig.step();
  }
  // It asked for 50 tokens a step and half of 64 are its share.
  EXPECT_NEAR(double(n_computed["asks"]), double(n_computed["floods"]), 700);
}

TEST(SchedulerOrder, a_tenant_that_was_away_has_saved_nothing) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 4});
  rig.add({.n_prompt = 10, .max_tokens = 1, .tenant = "rare"});
  rig.step();
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 2; ++k) rig.add({.n_prompt = 64, .max_tokens = 1, .tenant = "often"});
    rig.step();
  }
  uint64_t n_often = 0, n_rare = 0;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new] : plan.entries) {
      (sequence->request.tenant == "rare" ? n_rare : n_often) += n_new;
    }
  };
  for (int i = 0; i < 100; ++i) {
    rig.add({.n_prompt = 64, .max_tokens = 1, .tenant = "rare"});
    rig.step();
  }
  EXPECT_NEAR(double(n_often), double(n_rare), 700);
}

TEST(SchedulerOrder, where_tenants_share_none_takes_all_places) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 8});
  rig.add({.n_prompt = 1, .max_tokens = 1, .tenant = "asks"});
  rig.step();
  for (int i = 0; i < 20; ++i) rig.add({.n_prompt = 1, .tenant = "floods"});
  rig.step();
  EXPECT_EQ(rig.scheduler().n_running(), 6u);
  rig.add({.n_prompt = 1, .tenant = "asks"});
  rig.step();
  EXPECT_EQ(rig.scheduler().n_running(), 7u);
}

TEST(SchedulerShared, a_page_is_computed_once_whatever_the_order) {
  Rig rig(64, {.max_step_tokens = 40, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  for (int i = 0; i < 4; ++i) {
    rig.add({.n_prompt = 321, .max_tokens = 2, .token = 7, .tenant = std::string(i, 'x')});
  }
  uint64_t n_prompt_rows = 0;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new] : plan.entries) {
      if (!sequence->is_decoding()) n_prompt_rows += n_new;
    }
  };
  while (!rig.alive().empty()) rig.step();
  EXPECT_EQ(n_prompt_rows, 321u + 3);  // the last token's logits are everybody's own
}

TEST(SchedulerShared, nobody_waits_for_one_that_takes_less_than_a_page_a_step) {
  Rig rig(64, {.max_step_tokens = 512});
  rig.add({.n_prompt = 321, .max_chunk = 1, .token = 7});
  rig.add({.n_prompt = 321, .token = 7});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 321)));
}

TEST(SchedulerShared, nobody_waits_for_one_that_does_not_advance) {
  Rig rig(64, {.max_step_tokens = 64});
  rig.add({.n_prompt = 321, .token = 7, .priority = 1});
  rig.step();
  Sequence* urgent = rig.add({.n_prompt = 321, .token = 7});
  rig.step();  // behind it, the first gets nothing
  EXPECT_EQ(urgent->n_cached, 128u);
  while (urgent->n_generated() == 0) rig.step();
  EXPECT_EQ(rig.n_found_tokens(), 64u + 256);  // what the first had; what it found when it was next
}

}  // namespace
}  // namespace kvik
