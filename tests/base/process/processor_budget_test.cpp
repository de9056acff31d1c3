#include "base/process/processor_budget.h"

#include <gtest/gtest.h>

#include <string>

namespace kvik {
namespace {

using std::chrono::milliseconds;

TEST(ProcessorBudget, tenants_beyond_the_limit_do_not_add_accounts) {
  constexpr size_t kTenants = ProcessorBudget::kMaxAccounts + 100;
  constexpr milliseconds kBurst{100};
  ProcessorBudget budget({.share = 0.5, .burst = kBurst});
  const TimePoint now{};
  const auto name = [](size_t i) { return std::to_string(i); };
  budget.charge("greedy", 10 * kBurst, now);
  for (size_t i = 0; i < kTenants; ++i) budget.charge(name(i), milliseconds(1), now);
  size_t n_remembered = 0;
  for (size_t i = 0; i < kTenants; ++i) n_remembered += budget.left(name(i), now) < kBurst;
  EXPECT_EQ(n_remembered, ProcessorBudget::kMaxAccounts - 1);
  EXPECT_EQ(budget.left("greedy", now), -9 * kBurst) << "the least time left is forgotten last";
}

TEST(ProcessorBudget, an_unused_budget_is_forgotten_before_others) {
  ProcessorBudget budget({.share = 1, .burst = milliseconds(100)});
  const TimePoint begin{};
  budget.charge("busy", milliseconds(500), begin);
  for (size_t i = 1; i < ProcessorBudget::kMaxAccounts; ++i) {
    budget.charge(std::to_string(i), milliseconds(1), begin);
  }
  const TimePoint later = begin + milliseconds(10);
  budget.charge("new", milliseconds(30), later);
  EXPECT_EQ(budget.left("busy", later), milliseconds(-390));
  EXPECT_EQ(budget.left("new", later), milliseconds(70));
}

}  // namespace
}  // namespace kvik
