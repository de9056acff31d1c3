#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/scheduler_rig.h"

// Tests of priorities among a tenant's own requests, which do not change the shares of the tenants.
namespace kvik {
namespace {

using testing::ElementsAre;

constexpr auto kOwn = Request::PriorityScope::kOwnTenant;

// Runs steps until all sequences have ended, and returns their ids in that order.
std::vector<uint64_t> order_of_ends(Rig& rig) {
  std::vector<uint64_t> ended;
  while (!rig.alive().empty()) {
    std::map<const Sequence*, uint64_t> before;
    for (const Sequence* sequence : rig.alive()) {
      before[sequence] = static_cast<uint64_t>(sequence->id);
    }
    rig.step();
    for (const auto& [sequence, id] : before) {
      if (std::ranges::count(rig.alive(), sequence) == 0) ended.push_back(id);
    }
  }
  return ended;
}

TEST(OwnPriority, reorders_only_requests_of_the_same_tenant) {
  Rig rig(64, {.max_step_tokens = 32, .max_running = 1});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "ann", .priority = 9, .ranks = kOwn});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "bob", .ranks = kOwn});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "ann", .priority = -9, .ranks = kOwn});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "ann", .priority = 1, .ranks = kOwn});
  EXPECT_THAT(order_of_ends(rig), ElementsAre(3, 2, 4, 1));
}

TEST(OwnPriority, orders_the_prompts_that_run_too) {
  Rig rig(64, {.max_step_tokens = 30, .max_running = 4});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "ann", .priority = 1, .ranks = kOwn});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "ann", .priority = -1, .ranks = kOwn});
  EXPECT_THAT(rig.step(), ElementsAre(testing::Pair(2, 30)));
}

TEST(OwnPriority, a_global_priority_ranks_before_own_priorities) {
  Rig rig(64, {.max_step_tokens = 32, .max_running = 1});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "ann", .priority = INT32_MIN, .ranks = kOwn});
  rig.add({.n_prompt = 30, .max_tokens = 1, .tenant = "bob", .priority = -1});
  EXPECT_THAT(order_of_ends(rig), ElementsAre(2, 1));
}

TEST(OwnPriority, the_tenants_lowest_priority_is_preempted_first) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* low = rig.add({.n_prompt = 20, .tenant = "ann", .priority = 1, .ranks = kOwn});
  rig.step();
  rig.add({.n_prompt = 32, .tenant = "ann", .ranks = kOwn});
  rig.add({.n_prompt = 32, .tenant = "ann", .ranks = kOwn});
  rig.step();
  rig.step();
  EXPECT_EQ(rig.scheduler().n_preemptions(), 1u);
  EXPECT_EQ(low->table.n_pages(), 0u);
}

TEST(OwnPriority, takes_no_pages_from_another_tenant) {
  Rig rig(4, {.max_step_tokens = 512});
  Sequence* of_bob = rig.add({.n_prompt = 20, .tenant = "bob", .ranks = kOwn});
  rig.step();
  rig.add({.n_prompt = 32, .tenant = "ann", .priority = INT32_MIN, .ranks = kOwn});
  rig.add({.n_prompt = 32, .tenant = "cat", .priority = INT32_MIN, .ranks = kOwn});
  for (int i = 0; i < 20; ++i) rig.step();
  EXPECT_GT(rig.scheduler().n_preemptions(), 0u);
  EXPECT_GT(of_bob->table.n_pages(), 0u);
}

// Returns the tokens computed for each of three tenants, two of which flood the server.
std::map<std::string, uint64_t> computed_beside_floods(int32_t priority,
                                                       Request::PriorityScope ranks) {
  Rig rig(200, {.max_step_tokens = 64, .max_running = 8});
  std::map<std::string, uint64_t> n_computed;
  rig.on_plan = [&](const StepPlan& plan) {
    for (const auto& [sequence, n_new, n_wanted] : plan.entries) {
      n_computed[sequence->request.tenant] += n_new;
    }
  };
  for (int i = 0; i < 300; ++i) {
    for (const char* tenant : {"floods", "floods too"}) {
      for (int k = 0; k < 4; ++k) {
        rig.add({.n_prompt = 100,
                 .max_tokens = 5,
                 .tenant = tenant,
                 .priority = priority,
                 .ranks = ranks});
      }
    }
    if (i % 3 == 0) rig.add({.n_prompt = 60, .max_tokens = 5, .tenant = "asks", .ranks = ranks});
    rig.step();
  }
  return n_computed;
}

TEST(Shares, own_priorities_do_not_change_a_third_tenants_share) {
  const auto ranked = computed_beside_floods(INT32_MIN, kOwn);
  const auto plain = computed_beside_floods(0, kOwn);
  EXPECT_GT(ranked.at("asks"), 5000u) << "of the 6400 that it asks for";
  EXPECT_NEAR(double(ranked.at("asks")), double(plain.at("asks")), 300);
}

TEST(Shares, a_global_priority_outranks_other_tenants) {
  const auto ranked = computed_beside_floods(INT32_MIN, Request::PriorityScope::kAllTenants);
  const auto own = computed_beside_floods(INT32_MIN, kOwn);
  EXPECT_LT(ranked.at("asks") + 500, own.at("asks"));
}

TEST(Shares, long_answers_leave_room_for_the_next_tenant) {
  Rig rig(700, {.max_step_tokens = 512, .max_running = 14});
  for (int i = 0; i < 20; ++i) {
    rig.add({.n_prompt = 64, .max_tokens = 100'000, .tenant = "one"});
    rig.add({.n_prompt = 64, .max_tokens = 100'000, .tenant = "other"});
  }
  for (int i = 0; i < 20; ++i) rig.step();
  EXPECT_EQ(rig.scheduler().n_running(), 12u) << "six each: three sevenths of the places";
  Sequence* third = rig.add({.n_prompt = 40, .max_tokens = 10, .tenant = "third"});
  rig.step();
  EXPECT_EQ(third->n_generated(), 1u);
}

TEST(Shares, large_prompts_leave_pages_for_the_next_tenant) {
  Rig rig(140, {.max_step_tokens = 4096, .max_running = 100});
  for (int i = 0; i < 30; ++i) {
    rig.add({.n_prompt = 300, .max_tokens = 1000, .tenant = "one"});
    rig.add({.n_prompt = 300, .max_tokens = 1000, .tenant = "other"});
  }
  rig.step();
  rig.step();
  Sequence* third = rig.add({.n_prompt = 300, .max_tokens = 10, .tenant = "third"});
  rig.step();
  EXPECT_GT(third->n_cached, 0u);
  EXPECT_EQ(rig.scheduler().n_preemptions(), 0u);
}

}  // namespace
}  // namespace kvik
