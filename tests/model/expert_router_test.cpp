#include "model/expert_router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kvik {
namespace {

ExpertsConfig experts(uint32_t n, uint32_t n_used) { return {.n_experts = n, .n_used = n_used}; }

std::vector<float> random_scores(size_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> scores(n);
  for (float& score : scores) score = normal(generator);
  return scores;
}

// Returns the expert of each of the row's choices.
std::vector<uint32_t> chosen_of(const ExpertRouter& router, uint32_t row) {
  const WeightedRows taken = router.taken();
  std::vector<uint32_t> chosen;
  for (uint32_t i = 0; i < taken.n; ++i) {
    const uint32_t place = taken.rows[row * taken.n + i];
    for (const RowGroup& group : router.grouped().groups) {
      if (place >= group.first && place < group.first + group.n_rows)
        chosen.push_back(group.matrix);
    }
  }
  return chosen;
}

TEST(ExpertRouter, the_best_are_chosen_and_their_weights_add_up_to_one) {
  const ExpertsConfig config = experts(4, 2);
  ExpertRouter router(config, 1);
  router.route(std::vector<float>{0.5f, 2.0f, -1.0f, 1.0f}, 1);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{1, 3}));
  const auto weights = router.taken().weights;
  EXPECT_FLOAT_EQ(weights[0], 1 / (1 + std::exp(-1.0f)));
  EXPECT_FLOAT_EQ(weights[0] + weights[1], 1.0f);
}

TEST(ExpertRouter, without_normalizing_weights_are_shares_of_all_experts) {
  ExpertsConfig config = experts(3, 1);
  config.normalizes = false;
  ExpertRouter router(config, 1);
  router.route(std::vector<float>{0, 1, 2}, 1);
  const float all = std::exp(-2.0f) + std::exp(-1.0f) + 1;
  EXPECT_FLOAT_EQ(router.taken().weights[0], 1 / all);
}

TEST(ExpertRouter, sigmoid_scores_are_not_normalized_but_may_be_scaled) {
  ExpertsConfig config = experts(3, 2);
  config.scoring = ExpertScoring::kSigmoid;
  config.normalizes = false;
  config.weight_scale = 2.5f;
  ExpertRouter router(config, 1);
  router.route(std::vector<float>{0, -3, 1}, 1);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{2, 0}));
  EXPECT_FLOAT_EQ(router.taken().weights[0], 2.5f / (1 + std::exp(-1.0f)));
  EXPECT_FLOAT_EQ(router.taken().weights[1], 1.25f);
}

TEST(ExpertRouter, a_bias_moves_the_choice_and_not_the_weights) {
  ExpertsConfig config = experts(4, 2);
  config.scoring = ExpertScoring::kSigmoid;
  ExpertRouter router(config, 1);
  const std::vector<float> scores = {2, 1, 0, -1};
  router.route(scores, 1, {.correction_bias = std::vector<float>{0, 0, 0, 1}});
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{3, 0}));
  const float last = 1 / (1 + std::exp(1.0f));
  const float first = 1 / (1 + std::exp(-2.0f));
  EXPECT_FLOAT_EQ(router.taken().weights[0], last / (last + first));
  EXPECT_FLOAT_EQ(router.taken().weights[1], first / (last + first));
}

TEST(ExpertRouter, with_softmax_a_bias_is_added_to_probabilities) {
  const ExpertsConfig config = experts(4, 2);
  ExpertRouter router(config, 1);
  // The probabilities are 0.64, 0.24, 0.09 and 0.03.
  const std::vector<float> scores = {2, 1, 0, -1};
  router.route(scores, 1, {.correction_bias = std::vector<float>{0, 0, 0, 0.25f}});
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{0, 3}));
  const float first = std::exp(2.0f), last = std::exp(-1.0f);
  EXPECT_FLOAT_EQ(router.taken().weights[0], first / (first + last));
  EXPECT_FLOAT_EQ(router.taken().weights[1], last / (first + last));
  router.route(scores, 1, {.correction_bias = std::vector<float>{-1, 0, 0, 0}});
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{1, 2}));
}

TEST(ExpertRouter, experts_outside_the_best_groups_are_not_chosen) {
  ExpertsConfig config = experts(6, 2);
  config.scoring = ExpertScoring::kSigmoid;
  config.n_groups = 3;
  config.n_groups_used = 1;
  ExpertRouter router(config, 1);
  // The best expert is in the first group; the group with the best sum of two is the last one.
  router.route(std::vector<float>{4, -9, 0, 0, 2, 2}, 1);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{4, 5}));
  config.n_groups_used = 2;
  router.route(std::vector<float>{4, -9, -1, -1, 2, 2}, 1);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{0, 4}));
}

TEST(ExpertRouter, with_softmax_a_group_is_as_good_as_its_best_expert) {
  ExpertsConfig config = experts(6, 1);
  config.n_groups = 3;
  config.n_groups_used = 1;
  ExpertRouter router(config, 1);
  router.route(std::vector<float>{4, -9, 0, 0, 3, 3}, 1);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{0}));
}

TEST(ExpertRouter, of_equal_groups_the_first_serve) {
  ExpertsConfig config = experts(6, 1);
  config.n_groups = 3;
  config.n_groups_used = 2;
  ExpertRouter router(config, 2);
  router.route(std::vector<float>{1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1}, 2);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{0}));
  EXPECT_EQ(chosen_of(router, 1), (std::vector<uint32_t>{5}));
}

TEST(ExpertRouter, a_tie_goes_to_the_lower_number) {
  const ExpertsConfig config = experts(5, 3);
  ExpertRouter router(config, 1);
  router.route(std::vector<float>{1, 2, 1, 2, 1}, 1);
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{1, 3, 0}));
}

TEST(ExpertRouter, scores_that_are_no_numbers_still_choose_as_many_experts) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ExpertsConfig config = experts(4, 2);
  ExpertRouter router(config, 1);
  for (const auto& scores : {std::vector<float>{nan, nan, nan, nan}, {nan, 1, 2, nan}}) {
    router.route(scores, 1);
    EXPECT_EQ(router.grouped().rows.size(), 2u);
    EXPECT_EQ(router.grouped().groups.size(), 2u);
  }
}

// Each row is once in the group of each of its experts, and taken() refers to that entry.
TEST(ExpertRouter, each_row_is_in_the_group_of_each_of_its_experts) {
  const ExpertsConfig config = experts(8, 3);
  ExpertRouter router(config, 50);
  for (const uint32_t n_rows : {1u, 50u, 13u}) {
    router.route(random_scores(n_rows * 8, n_rows), n_rows);
    const GroupedRows grouped = router.grouped();
    ASSERT_EQ(grouped.rows.size(), n_rows * 3);
    uint32_t next = 0;
    for (const RowGroup& group : grouped.groups) {
      EXPECT_EQ(group.first, next);
      EXPECT_GT(group.n_rows, 0u);
      next += group.n_rows;
    }
    EXPECT_EQ(next, n_rows * 3);
    for (uint32_t choice = 0; choice < n_rows * 3; ++choice) {
      EXPECT_EQ(grouped.rows[router.taken().rows[choice]], choice / 3);
    }
  }
}

TEST(ExpertRouter, a_rows_experts_and_weights_do_not_depend_on_the_rows_beside_it) {
  const ExpertsConfig config = experts(8, 3);
  ExpertRouter together(config, 20), alone(config, 20);
  const auto scores = random_scores(20 * 8, 7);
  together.route(scores, 20);
  for (uint32_t row = 0; row < 20; ++row) {
    alone.route(std::span(scores).subspan(row * 8, 8), 1);
    EXPECT_EQ(chosen_of(alone, 0), chosen_of(together, row));
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(alone.taken().weights[i], together.taken().weights[row * 3 + i]);
    }
  }
}

TEST(ExpertRouter, the_shared_experts_gate_is_a_column_behind_the_experts) {
  ExpertsConfig config = experts(2, 1);
  config.shared_ffn_dim = 32;
  config.has_shared_gate = true;
  ASSERT_EQ(ExpertRouter::n_columns(config), 3u);
  ExpertRouter router(config, 2);
  router.route(std::vector<float>{1, 0, 0, 0, 1, 2}, 2);
  EXPECT_FLOAT_EQ(router.shared().weights[0], 0.5f);
  EXPECT_FLOAT_EQ(router.shared().weights[1], 1 / (1 + std::exp(-2.0f)));
  EXPECT_EQ(router.shared().rows[1], 1u);
}

double root_of_softplus(double score) { return std::sqrt(std::log1p(std::exp(score))); }

TEST(ExpertRouter, weights_may_be_roots_of_softplus_beside_a_bias_for_choosing) {
  ExpertsConfig config = experts(4, 2);
  config.scoring = ExpertScoring::kSqrtSoftplus;
  config.weight_scale = 1.5f;
  ExpertRouter router(config, 1);
  const std::vector<float> scores = {0.5f, 2.0f, -1.0f, 1.0f};
  router.route(scores, 1, {.correction_bias = std::vector<float>{0, 0, 5, 0}});
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{2, 1}));
  const double low = root_of_softplus(-1), high = root_of_softplus(2);
  EXPECT_FLOAT_EQ(router.taken().weights[0], static_cast<float>(1.5 * low / (low + high)));
  EXPECT_FLOAT_EQ(router.taken().weights[1], static_cast<float>(1.5 * high / (low + high)));
}

TEST(ExpertRouter, a_table_gives_the_experts_of_each_token) {
  ExpertsConfig config = experts(3, 2);
  config.scoring = ExpertScoring::kSqrtSoftplus;
  ExpertRouter router(config, 2);
  const std::vector<uint32_t> table = {0, 1, 2, 0, 1, 1};  // of three tokens
  router.route(std::vector<float>{9, 9, 9, 1, -2, 0}, 2,
               {.table = table, .tokens = std::vector<TokenId>{2, 1}});
  EXPECT_EQ(chosen_of(router, 0), (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(chosen_of(router, 1), (std::vector<uint32_t>{2, 0}));
  EXPECT_FLOAT_EQ(router.taken().weights[0], 0.5f);
  const double first = root_of_softplus(0), second = root_of_softplus(1);
  EXPECT_FLOAT_EQ(router.taken().weights[2], static_cast<float>(first / (first + second)));
}

}  // namespace
}  // namespace kvik
