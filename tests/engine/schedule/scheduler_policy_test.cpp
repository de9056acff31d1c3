#include "engine/schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/scheduler_rig.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::Pair;

// 10 ms per step and 1 ms per row.
double plain_cost(const StepWork& work) { return 10.0 + work.n_rows; }

TEST(SchedulerTarget, prompts_fill_what_decodes_leave_of_it) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  rig.add({.n_prompt = 3});
  rig.step();
  rig.add({.n_prompt = 180});  // 180 ms in five steps: no longer than the target
  for (int i = 0; i < 4; ++i) {
    const auto planned = rig.step();
    ASSERT_EQ(planned.size(), 2u);
    EXPECT_NEAR(planned[1].second, 39, 6);  // 50 - 11
  }
}

TEST(SchedulerTarget, steps_return_to_the_target_when_the_backlog_shrinks) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  rig.add({.n_prompt = 3});
  rig.step();
  Sequence* prompt = rig.add({.n_prompt = 600});
  EXPECT_NEAR(rig.step()[1].second, 74, 6);  // at most 1.7 times 50, minus 11
  while (prompt->n_pending() > 190) rig.step();
  EXPECT_NEAR(rig.step()[1].second, 39, 6);  // 50 - 11 again
}

TEST(SchedulerTarget, without_decodes_there_is_no_limit) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  rig.add({.n_prompt = 700});
  EXPECT_EQ(rig.step()[0].second, 512u);
}

TEST(SchedulerTarget, prompts_keep_a_quarter_of_the_step) {
  Rig rig(256, {.max_step_tokens = 512, .max_running = 200, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
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
  rig.train_cost_model();
  rig.add({.n_prompt = 3});
  rig.step();
  rig.add({.n_prompt = 400});
  EXPECT_EQ(rig.step()[1].second, 1u);
}

TEST(SchedulerTarget, a_completed_prompt_does_not_wait_for_later_ones) {
  Rig rig(64, {.max_step_tokens = 512, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  for (int i = 0; i < 4; ++i) rig.add({.n_prompt = 100});
  EXPECT_EQ(rig.step().size(), 1u);  // 110 ms; its token does not wait 400 ms for the others
}

TEST(SchedulerTarget, a_short_prompt_overtakes_a_long_one_that_came_just_before) {
  Rig rig(64, {.max_step_tokens = 32, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
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
  rig.train_cost_model();
  Sequence* const prompt = rig.add({.n_prompt = 900});
  for (int i = 0; i < 200; ++i) {
    rig.add({.n_prompt = 30, .max_tokens = 1, .submitted_ms = i * 40.0});
    rig.step();
  }
  EXPECT_GE(prompt->n_generated(), 1u);
}

TEST(SchedulerTarget, steps_stretch_for_a_backlog_of_prompts_to_1_7_times_the_target) {
  Rig rig(2000, {.max_step_tokens = 512, .max_running = 200, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  rig.add({.n_prompt = 8});
  rig.step();
  double longest_ms = 0;
  rig.on_plan = [&](const StepPlan& plan) { longest_ms = std::max(longest_ms, plan.ms); };
  rig.add({.n_prompt = 40, .max_tokens = 1});
  for (int i = 0; i < 10; ++i) rig.step();
  EXPECT_LE(longest_ms, 50.5);
  rig.add({.n_prompt = 40'000, .max_tokens = 1});
  for (int i = 0; i < 10; ++i) rig.step();
  EXPECT_GT(longest_ms, 80);
  EXPECT_LE(longest_ms, 85.5);
}

TEST(SchedulerOrder,
     a_prompt_of_which_the_cache_knows_most_is_admitted_before_an_older_unknown_one) {
  Rig rig(64, {.max_step_tokens = 512, .max_running = 1});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  rig.add({.n_prompt = 600, .max_tokens = 1, .token = 7});
  while (!rig.alive().empty()) rig.step();
  Sequence* const running = rig.add({.n_prompt = 8, .max_tokens = 5});
  rig.step();
  Sequence* const unknown = rig.add({.n_prompt = 700, .max_tokens = 1, .token = 9});
  Sequence* const known = rig.add({.n_prompt = 620, .max_tokens = 1, .token = 7});
  std::vector<const Sequence*> ended;
  while (!rig.alive().empty()) {
    const std::vector<Sequence*> before = rig.alive();
    rig.step();
    for (Sequence* sequence : before) {
      if (std::ranges::count(rig.alive(), sequence) == 0) ended.push_back(sequence);
    }
  }
  EXPECT_THAT(ended, ElementsAre(running, known, unknown));
}

// Returns which of two prompts is admitted first: one of 700 tokens without any cached ones,
// submitted at 0, or one with all but 20 tokens cached.
const char* first_admitted(double known_submitted_ms) {
  Rig rig(64, {.max_step_tokens = 512, .max_running = 1});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  rig.add({.n_prompt = 600, .max_tokens = 1, .token = 7});
  while (!rig.alive().empty()) rig.step();
  Sequence* const running = rig.add({.n_prompt = 8, .max_tokens = 5});
  rig.step();
  Sequence* const unknown = rig.add({.n_prompt = 700, .max_tokens = 9, .token = 9});
  Sequence* const known =
      rig.add({.n_prompt = 620, .max_tokens = 9, .token = 7, .submitted_ms = known_submitted_ms});
  while (std::ranges::count(rig.alive(), running) > 0) rig.step();
  rig.step();
  EXPECT_NE(unknown->table.is_empty(), known->table.is_empty());
  return known->table.is_empty() ? "unknown" : "known";
}

TEST(SchedulerOrder, an_uncached_prompt_waits_up_to_three_times_its_time) {
  EXPECT_STREQ(first_admitted(1800), "known");
  EXPECT_STREQ(first_admitted(2400), "unknown");  // 720 ms alone, due after 2160
}

TEST(SchedulerOrder, cached_pages_of_waiting_prompts_are_evicted_last) {
  Rig rig(30, {.max_step_tokens = 512, .max_running = 1});
  // Ten pages each; those of token 7 are the least recently used.
  for (const TokenId token : {7, 8}) {
    rig.add({.n_prompt = 320, .max_tokens = 1, .token = token});
    while (!rig.alive().empty()) rig.step();
  }
  Sequence* const running = rig.add({.n_prompt = 8, .max_tokens = 500});
  rig.step();
  rig.add({.n_prompt = 320, .max_tokens = 1, .token = 7});
  while (std::ranges::count(rig.alive(), running) > 0) rig.step();
  const uint64_t n_found = rig.n_found_tokens();
  while (!rig.alive().empty()) rig.step();
  EXPECT_EQ(rig.n_found_tokens() - n_found, 319u);
}

TEST(SchedulerOrder, a_backlog_of_shorter_prompts_delays_admission) {
  Rig rig(2000, {.max_step_tokens = 32, .max_running = 100, .itl_target = from_ms(50)});
  rig.cost_ms = plain_cost;
  rig.train_cost_model();
  for (int i = 0; i < 8; ++i) rig.add({.n_prompt = 400, .max_tokens = 1});
  rig.step();
  const uint32_t n_running = rig.scheduler().n_running();
  EXPECT_LT(n_running, 8u);
  Sequence* const short_one = rig.add({.n_prompt = 20, .max_tokens = 2});
  rig.step();
  EXPECT_GT(short_one->table.n_pages(), 0u);  // not blocked by the waiting prompts
  while (!rig.alive().empty()) rig.step();
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

TEST(SchedulerOrder, tenants_get_equal_service) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 4});
  std::map<std::string, uint64_t> n_computed;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
      n_computed[sequence->request.tenant] += n_new;
    }
  };
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 6; ++k) rig.add({.n_prompt = 100, .max_tokens = 1, .tenant = "floods"});
    if (i % 2 == 0) rig.add({.n_prompt = 100, .max_tokens = 1, .tenant = "asks"});
    rig.step();
  }
  // The tenant "asks" requests 50 tokens per step, and its fair share of the 64 is half.
  EXPECT_NEAR(double(n_computed["asks"]), double(n_computed["floods"]), 700);
}

TEST(SchedulerOrder, an_idle_tenant_earns_no_credit) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 4});
  rig.add({.n_prompt = 10, .max_tokens = 1, .tenant = "rare"});
  rig.step();
  for (int i = 0; i < 200; ++i) {
    for (int k = 0; k < 2; ++k) rig.add({.n_prompt = 64, .max_tokens = 1, .tenant = "often"});
    rig.step();
  }
  uint64_t n_often = 0, n_rare = 0;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
      (sequence->request.tenant == "rare" ? n_rare : n_often) += n_new;
    }
  };
  for (int i = 0; i < 100; ++i) {
    rig.add({.n_prompt = 64, .max_tokens = 1, .tenant = "rare"});
    rig.step();
  }
  EXPECT_NEAR(double(n_often), double(n_rare), 700);
}

TEST(SchedulerOrder, no_tenant_takes_all_places) {
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

TEST(SchedulerOrder, the_first_tenant_leaves_places_for_configured_ones) {
  Rig rig(64, {.max_step_tokens = 64, .max_running = 8, .n_tenants = 2});
  for (int i = 0; i < 20; ++i) rig.add({.n_prompt = 1, .tenant = "floods"});
  rig.step();
  EXPECT_EQ(rig.scheduler().n_running(), 6u);
  rig.add({.n_prompt = 1, .tenant = "asks for the first time"});
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
    for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
      if (!sequence->is_decoding()) n_prompt_rows += n_new;
    }
  };
  while (!rig.alive().empty()) rig.step();
  EXPECT_EQ(n_prompt_rows, 321u + 3);  // each request computes its own last token
}

TEST(SchedulerShared, a_prompt_slower_than_a_page_per_step_is_not_waited_for) {
  Rig rig(64, {.max_step_tokens = 512});
  rig.add({.n_prompt = 321, .max_chunk = 1, .token = 7});
  rig.add({.n_prompt = 321, .token = 7});
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 321)));
}

TEST(SchedulerShared, a_prompt_that_does_not_advance_is_not_waited_for) {
  Rig rig(64, {.max_step_tokens = 64});
  rig.add({.n_prompt = 321, .token = 7, .priority = 1});
  rig.step();
  Sequence* urgent = rig.add({.n_prompt = 321, .token = 7});
  rig.step();  // the first sequence gets no rows in a step after the urgent one
  EXPECT_EQ(urgent->n_cached, 128u);
  while (urgent->n_generated() == 0) rig.step();
  // Tokens the first one had, then those the urgent one computed.
  EXPECT_EQ(rig.n_found_tokens(), 64u + 256);
}

}  // namespace
}  // namespace kvik
