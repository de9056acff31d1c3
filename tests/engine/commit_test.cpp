#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/scheduler_rig.h"

// Tests the state after a step in which not all rows were accepted, as with rejected draft tokens.
namespace kvik {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Accepts only the first n rows of each entry, in one step.
void accept_once(Rig& rig, uint32_t n) {
  rig.on_sampled = [&rig, n](const StepPlan&, std::vector<uint32_t>& accepted) {
    for (uint32_t& rows : accepted) rows = std::min(rows, n);
    rig.on_sampled = nullptr;
  };
}

uint32_t n_known(Rig& rig, const Sequence& sequence) {
  return rig.kv().find({sequence.root(), sequence.tokens}).n_tokens();
}

TEST(Commit, rejected_rows_are_computed_again_and_not_cached) {
  Rig rig(8, {.max_step_tokens = 512});
  Sequence* sequence = rig.add({.n_prompt = 100});
  accept_once(rig, 40);
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 100)));
  EXPECT_EQ(sequence->n_cached, 40u);
  EXPECT_EQ(sequence->table.n_sealed(), 1u);
  EXPECT_EQ(n_known(rig, *sequence), 32u);
  EXPECT_EQ(rig.scheduler().n_prompt_tokens(), 40u);
  EXPECT_EQ(sequence->n_kv_rows, 100u) << "computed, whether accepted or not";
  EXPECT_THAT(rig.step(), ElementsAre(Pair(1, 60)));
  EXPECT_EQ(n_known(rig, *sequence), 96u);
  EXPECT_EQ(rig.scheduler().n_prompt_tokens(), 100u);
}

// A prompt of 40 tokens gets 30 draft tokens; 9 of the 31 rows are accepted.
TEST(Commit, pages_with_only_rejected_rows_are_released) {
  Rig rig(8, {.max_step_tokens = 512});
  Sequence* sequence = rig.add({.n_prompt = 40});
  rig.step();
  ASSERT_EQ(sequence->n_pending(), 1u);
  EXPECT_EQ(rig.n_pages_held(), 2u);
  sequence->tokens.insert(sequence->tokens.end(), 30, 9);
  rig.on_sampled = [&](const StepPlan& plan, std::vector<uint32_t>& accepted) {
    EXPECT_EQ(plan.entries.at(0).n_new, 31u);
    EXPECT_EQ(rig.n_pages_held(), 3u);
    accepted[0] = 9;
    sequence->tokens.resize(49);
    rig.on_sampled = nullptr;
  };
  rig.step();
  EXPECT_EQ(sequence->n_cached, 49u);
  EXPECT_EQ(sequence->n_tokens(), 50u);
  EXPECT_EQ(rig.n_pages_held(), 2u);
  EXPECT_EQ(sequence->table.n_sealed(), 1u);
  for (int i = 0; i < 20; ++i) rig.step();
  EXPECT_EQ(sequence->n_cached, 69u);
  EXPECT_EQ(n_known(rig, *sequence), 64u);
}

TEST(Commit, all_logits_are_wanted_of_all_rows_and_one_of_a_prompts_end) {
  Rig rig(8, {.max_step_tokens = 64});
  Sequence* last = rig.add({.n_prompt = 80});
  Sequence* all = rig.add({.n_prompt = 20});
  all->request.logits = Request::Logits::kAll;
  // Rows of the first sequence in each step: all, and those with logits.
  std::vector<std::pair<uint32_t, uint32_t>> wanted;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
      if (sequence == last) wanted.emplace_back(n_new, n_wanted);
      if (sequence == all && sequence->n_cached == 0) {
        EXPECT_EQ(n_wanted, n_new);
      }
    }
  };
  while (last->n_cached < 81) rig.step();
  uint32_t n_rows = 0;
  for (const auto& [n_new, n_wanted] : wanted) {
    n_rows += n_new;
    EXPECT_EQ(n_wanted, n_rows >= 80 ? 1u : 0u);
  }
}

}  // namespace
}  // namespace kvik
