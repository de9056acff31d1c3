#include "engine/schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler_rig.h"

namespace kvik {
namespace {

using testing::ElementsAre;
using testing::Pair;

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
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 33)));  // 2 pages free, 3 needed
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
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1)));  // the last token's logits are needed
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
  // Both older sequences need a second page, and one is free.
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 1), Pair(2, 1)));
  EXPECT_EQ(rig.scheduler().n_preemptions(), 1u);
  EXPECT_EQ(rig.scheduler().n_waiting(), 1u);
  EXPECT_EQ(youngest->n_cached, 0u);
  EXPECT_EQ(youngest->table.n_pages(), 0u);
  EXPECT_EQ(youngest->n_tokens(), 21u);  // generated tokens are kept
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
  // 2 pages are free: one for the third sequence and one for growth, then none.
  EXPECT_THAT(rig.step(), ElementsAre(Pair(2, 1), Pair(3, 21)));
}

TEST(Scheduler, the_last_sequence_is_preempted_if_it_cannot_grow) {
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

TEST(Scheduler, a_preempted_decode_leaves_the_plan) {
  // Without the cache the older sequence is planned among the prompts, after the decode.
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

}  // namespace
}  // namespace kvik
