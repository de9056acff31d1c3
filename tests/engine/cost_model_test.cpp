#include "engine/cost_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace kvik {
namespace {

// The costs of a simulated machine, about those of a 1.1B model on two cores.
double actual_ms(const StepWork& work) {
  return 16 + 1.9 * work.n_rows + 0.2 * work.n_logits + 3e-4 * work.kv_tokens +
         2e-4 * work.attention;
}

StepWork decodes(uint32_t n, uint32_t depth) {
  StepWork work;
  for (uint32_t i = 0; i < n; ++i) work += StepWork::chunk(depth, 1, 1);
  return work;
}

// Returns a typical step: some decodes at various positions, and often a chunk of a prompt.
StepWork some_step(std::mt19937& random) {
  StepWork work = decodes(static_cast<uint32_t>(random() % 12), 100 + random() % 3000);
  if (work.n_rows == 0 || random() % 2 == 0) {
    work += StepWork::chunk(random() % 4000, 1 + random() % 60, random() % 2);
  }
  return work;
}

double worst_error(const CostModel& model, std::mt19937 random) {
  double worst = 0;
  for (int i = 0; i < 200; ++i) {
    const StepWork work = some_step(random);
    worst = std::max(worst, std::abs(model.ms(work) / actual_ms(work) - 1));
  }
  return worst;
}

TEST(CostModel, before_the_first_step_every_estimate_is_zero) {
  const CostModel model;
  EXPECT_EQ(model.ms(StepWork::chunk(0, 512, 1)), 0);
  EXPECT_EQ(model.tokens_within(0, 0, 512), 512u);
}

TEST(CostModel, one_step_gives_an_estimate_of_the_right_size) {
  CostModel model;
  model.observe(StepWork::chunk(0, 512, 1), 1000);
  EXPECT_NEAR(model.ms(StepWork::chunk(0, 512, 1)), 1000, 20);
  EXPECT_NEAR(model.ms(StepWork::chunk(0, 128, 1)), 250, 60);
  const double decode = model.ms(decodes(1, 512));
  EXPECT_GT(decode, 1);
  EXPECT_LT(decode, 50);
}

TEST(CostModel, learns_a_machine_from_its_steps_within_5_percent) {
  std::mt19937 random(1);
  CostModel model;
  for (int i = 0; i < 300; ++i) {
    const StepWork work = some_step(random);
    model.observe(work, actual_ms(work));
  }
  EXPECT_LT(worst_error(model, random), 0.05);
}

TEST(CostModel, noise_and_outliers_hardly_move_it) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise(1, 0.05);
  CostModel model;
  for (int i = 0; i < 600; ++i) {
    const StepWork work = some_step(random);
    const double outlier = random() % 50 == 0 ? 20 : 1;  // as if another process used the machine
    model.observe(work, actual_ms(work) * noise(random) * outlier);
  }
  EXPECT_LT(worst_error(model, random), 0.2);
}

TEST(CostModel, decode_steps_do_not_make_prompts_look_free) {
  std::mt19937 random(3);
  CostModel model;
  for (int i = 0; i < 200; ++i) {
    const StepWork work = some_step(random);
    model.observe(work, actual_ms(work));
  }
  const StepWork prompt = decodes(4, 500) + StepWork::chunk(0, 200, 1);
  for (int i = 0; i < 1000; ++i) model.observe(decodes(4, 500), actual_ms(decodes(4, 500)));
  EXPECT_NEAR(model.ms(prompt) / actual_ms(prompt), 1, 0.15);
}

TEST(CostModel, a_slower_machine_is_learned_within_a_hundred_steps) {
  std::mt19937 random(4);
  CostModel model;
  for (int i = 0; i < 300; ++i) {
    const StepWork work = some_step(random);
    model.observe(work, actual_ms(work));
  }
  for (int i = 0; i < 100; ++i) {
    const StepWork work = some_step(random);
    model.observe(work, 3 * actual_ms(work));
  }
  for (int i = 0; i < 50; ++i) {
    const StepWork work = some_step(random);
    EXPECT_NEAR(model.ms(work) / (3 * actual_ms(work)), 1, 0.35);
  }
}

TEST(CostModel, fewer_tokens_fit_a_budget_at_later_positions) {
  std::mt19937 random(5);
  CostModel model;
  for (int i = 0; i < 400; ++i) {
    const StepWork work = some_step(random);
    model.observe(work, actual_ms(work));
  }
  const uint32_t n = model.tokens_within(30, 0, 512);
  EXPECT_NEAR(n, 15, 2);
  const StepWork before = decodes(3, 100);
  EXPECT_LE(model.ms(before + StepWork::chunk(0, n, 0)) - model.ms(before), 30);
  EXPECT_GT(model.ms(before + StepWork::chunk(0, n + 1, 0)) - model.ms(before), 30);
  EXPECT_LT(model.tokens_within(30, 8000, 512), n);
  EXPECT_EQ(model.tokens_within(30, 0, 7), 7u);
  EXPECT_EQ(model.tokens_within(0, 0, 7), 0u);
}

TEST(CostModel, a_whole_prompt_costs_the_sum_of_its_chunks) {
  std::mt19937 random(6);
  CostModel model;
  for (int i = 0; i < 400; ++i) {
    const StepWork work = some_step(random);
    model.observe(work, actual_ms(work));
  }
  double sum = 0;
  for (uint32_t done = 0; done < 4096; done += 512) {
    sum += model.ms(StepWork::chunk(done, 512, done + 512 == 4096 ? 1 : 0));
  }
  EXPECT_NEAR(model.prompt_ms(0, 4096, 512) / sum, 1, 0.05);
}

TEST(CostModel, pages_are_read_where_that_is_cheaper_than_computing_them) {
  CostModel model;
  model.observe(StepWork::chunk(0, 512, 1), 1000);
  EXPECT_GT(model.known_compute_ms(0, 512).value(), 100);
  EXPECT_LT(model.known_compute_ms(0, 512).value(), 1500);
}

TEST(CostModel, the_cost_of_prompts_is_unknown_after_decoding_only) {
  CostModel model;
  for (uint32_t i = 0; i < 20; ++i) model.observe(StepWork::chunk(1000 + i, 1, 1), 5);
  EXPECT_FALSE(model.known_compute_ms(0, 512).has_value());
  model.observe(StepWork::chunk(0, 256, 1), 100);
  EXPECT_LT(model.known_compute_ms(0, 512).value(), 10'000);
}

}  // namespace
}  // namespace kvik
