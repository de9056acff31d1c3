#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "backend/cuda/both_backends.h"
#include "model/expert_router.h"

namespace kvik {
namespace {

using testing::BothBackends;
using testing::FileMatrix;
using testing::placed;
using testing::PlacedRows;
using testing::random_floats;
using testing::random_matrix;

constexpr uint32_t kIn = 64, kMiddle = 64, kOut = 33;
constexpr float kNoNumber = 123456.0f;

// Rows with their scores, and the routing rule.
struct RouteCase {
  ExpertsConfig config;
  uint32_t n_rows = 1;
  std::vector<float> scores;
  bool has_correction_bias = false, has_factors = false;
  ElementType type = ElementType::kQ8_0;
};

std::vector<float> random_scores(const ExpertsConfig& config, uint32_t n_rows, uint32_t seed) {
  return random_floats(size_t{n_rows} * ExpertRouter::n_columns(config), seed);
}

RouteCase random_case(const ExpertsConfig& config, uint32_t n_rows, uint32_t seed = 1) {
  return {.config = config, .n_rows = n_rows, .scores = random_scores(config, n_rows, seed)};
}

// Returns a bias that separates half of the experts from the others.
std::vector<float> correction_bias(const RouteCase& c) {
  std::vector<float> bias = random_floats(c.has_correction_bias ? c.config.n_experts : 0, 21);
  for (size_t i = 0; i < bias.size(); i += 2) bias[i] *= 0.1f;
  return bias;
}
std::vector<float> factors(const RouteCase& c) {
  return random_floats(c.has_factors ? c.config.n_experts : 0, 22);
}

RouteShape shape_of(const ExpertsConfig& config, std::span<const float> bias,
                    std::span<const float> factors) {
  return {.n_experts = config.n_experts,
          .n_used = config.n_used,
          .n_groups = config.n_groups,
          .n_groups_used = config.n_groups_used,
          .is_sigmoid = config.scoring == ExpertScoring::kSigmoid,
          .normalizes = config.normalizes,
          .has_shared_gate = config.has_shared_gate,
          .weight_scale = config.weight_scale,
          .correction_bias = bias,
          .factors = factors};
}

std::vector<FileMatrix> random_experts(ElementType type, uint32_t n, uint32_t n_rows,
                                       uint32_t n_cols) {
  std::vector<FileMatrix> experts;
  for (uint32_t i = 0; i < n; ++i) experts.push_back(random_matrix(type, n_rows, n_cols, i + 5));
  return experts;
}

std::unique_ptr<PackedMatrix> packed(Backend& backend, std::span<const FileMatrix> parts) {
  std::vector<TensorView> views;
  for (const FileMatrix& part : parts) views.push_back(part.view());
  return std::move(*backend.pack_views(views));
}

// The experts of a case, the same for each backend.
struct Experts {
  explicit Experts(const RouteCase& c)
      : up(random_experts(c.type, c.config.n_experts, kMiddle, kIn)),
        down(random_experts(c.type, c.config.n_experts, kOut, kMiddle)) {}
  std::vector<FileMatrix> up, down;
};

// Returns the output of the experts and of every intermediate step, with lists made by the device
// or by the host's router.
std::vector<float> through_experts(Backend& backend, const RouteCase& c, const Experts& experts) {
  const ExpertsConfig& config = c.config;
  const uint32_t n = c.n_rows * config.n_used;
  const std::vector<float> bias = correction_bias(c), factor = factors(c);
  PlacedRows scores(backend, c.n_rows, ExpertRouter::n_columns(config), c.scores);
  ExpertRouter router(config, c.n_rows);
  GroupedRows chosen{.n_matrices = config.n_experts, .routed = Routed::kChosen, .n_routed = n};
  GroupedRows in_order{.n_matrices = config.n_experts, .routed = Routed::kInOrder, .n_routed = n};
  WeightedRows taken{.n = config.n_used, .routed = Routed::kChosen};
  WeightedRows shared{.n = 1, .routed = Routed::kShared};
  const bool is_routed = backend.route(shape_of(config, bias, factor), scores.rows);
  EXPECT_EQ(is_routed, backend.name().starts_with("cuda"));
  if (!is_routed) {
    router.route(c.scores, c.n_rows, {.correction_bias = bias, .factors = factor});
    chosen = router.grouped();
    in_order = router.grouped_in_order();
    taken = router.taken();
    shared = router.shared();
  }
  PlacedRows x(backend, c.n_rows, kIn, random_floats(size_t{c.n_rows} * kIn, 2));
  PlacedRows middle(backend, n, kMiddle), out(backend, n, kOut);
  PlacedRows of_shared(backend, c.n_rows, kOut, random_floats(size_t{c.n_rows} * kOut, 3));
  PlacedRows sum(backend, c.n_rows, kOut, random_floats(size_t{c.n_rows} * kOut, 4));
  const Buffer up_bias = placed(backend, random_floats(config.n_experts * kMiddle, 5));
  const Buffer down_bias = placed(backend, random_floats(config.n_experts * kOut, 6));
  const auto up = packed(backend, experts.up), down = packed(backend, experts.down);
  backend.grouped_matmul(x.rows, *up, chosen, middle.rows);
  backend.add_grouped_bias(middle.rows, up_bias.floats(), chosen);
  backend.grouped_matmul(middle.rows, *down, in_order, out.rows);
  backend.add_grouped_bias(out.rows, down_bias.floats(), in_order);
  backend.add_weighted(sum.rows, out.rows, taken);
  backend.add_weighted(sum.rows, of_shared.rows, shared);
  std::vector<float> all = middle.values();
  for (PlacedRows* rows : {&out, &sum}) {
    const std::vector<float> values = rows->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  // The payload bits of a NaN are unspecified.
  for (float& value : all) value = std::isnan(value) ? kNoNumber : value;
  return all;
}

::testing::AssertionResult agrees(BothBackends& both, const RouteCase& c) {
  const Experts experts(c);
  return both.agree([&](Backend& backend) { return through_experts(backend, c, experts); });
}

TEST(CudaRoute, any_number_of_rows_goes_to_the_routers_experts) {
  BothBackends both;
  for (const uint32_t n_experts : {4u, 31u, 33u, 160u}) {
    for (const uint32_t n_rows : {1u, 2u, 5u, 33u, 130u}) {
      EXPECT_TRUE(agrees(both, random_case({.n_experts = n_experts, .n_used = 4}, n_rows)))
          << n_rows << " rows, " << n_experts << " experts";
    }
  }
}

TEST(CudaRoute, any_number_of_experts_is_chosen) {
  BothBackends both;
  for (uint32_t n_used = 1; n_used <= 8; ++n_used) {
    for (const uint32_t n_experts : {8u, 70u}) {
      EXPECT_TRUE(agrees(both, random_case({.n_experts = n_experts, .n_used = n_used}, 6)))
          << n_used << " of " << n_experts;
    }
  }
  EXPECT_TRUE(agrees(both, random_case({.n_experts = 40, .n_used = 32}, 3)));
}

TEST(CudaRoute, weights_are_softmaxs_or_sigmoids_normalized_scaled_and_multiplied) {
  BothBackends both;
  for (const ExpertScoring scoring : {ExpertScoring::kSoftmax, ExpertScoring::kSigmoid}) {
    for (const bool normalizes : {true, false}) {
      for (const bool has_more : {true, false}) {
        RouteCase c = random_case({.n_experts = 45,
                                   .n_used = 5,
                                   .scoring = scoring,
                                   .normalizes = normalizes,
                                   .weight_scale = has_more ? 2.5f : 1.0f,
                                   .has_shared_gate = has_more},
                                  9);
        c.has_factors = has_more;
        EXPECT_TRUE(agrees(both, c)) << normalizes << has_more;
        c.has_correction_bias = true;
        EXPECT_TRUE(agrees(both, c)) << normalizes << has_more << " with a bias";
      }
    }
  }
}

TEST(CudaRoute, experts_are_those_of_the_best_groups) {
  BothBackends both;
  for (const ExpertScoring scoring : {ExpertScoring::kSoftmax, ExpertScoring::kSigmoid}) {
    for (const auto [n, n_groups, n_groups_used, n_used] :
         {std::array{16u, 4u, 2u, 3u}, std::array{160u, 8u, 3u, 8u}, std::array{48u, 48u, 9u, 5u},
          std::array{12u, 2u, 2u, 4u}}) {
      RouteCase c = random_case({.n_experts = n,
                                 .n_used = n_used,
                                 .scoring = scoring,
                                 .n_groups = n_groups,
                                 .n_groups_used = n_groups_used},
                                20);
      EXPECT_TRUE(agrees(both, c)) << n;
      c.has_correction_bias = true;
      EXPECT_TRUE(agrees(both, c)) << n << " with a bias";
    }
  }
}

TEST(CudaRoute, ties_go_to_the_lower_number) {
  BothBackends both;
  for (const ExpertScoring scoring : {ExpertScoring::kSoftmax, ExpertScoring::kSigmoid}) {
    for (const uint32_t n_groups : {1u, 5u}) {
      RouteCase c = random_case({.n_experts = 50,
                                 .n_used = 6,
                                 .scoring = scoring,
                                 .n_groups = n_groups,
                                 .n_groups_used = std::min(n_groups, 2u)},
                                30);
      for (float& score : c.scores) score = std::round(score);  // includes zeros of both signs
      EXPECT_TRUE(agrees(both, c)) << n_groups;
      std::ranges::fill(c.scores, 0.25f);
      EXPECT_TRUE(agrees(both, c)) << n_groups << " of equal scores";
    }
  }
}

// The result of such scores does not matter, as long as it is the same.
TEST(CudaRoute, scores_that_are_no_numbers_or_infinite_choose_as_on_the_host) {
  BothBackends both;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const ExpertScoring scoring : {ExpertScoring::kSoftmax, ExpertScoring::kSigmoid}) {
    for (const uint32_t n_groups : {1u, 4u}) {
      for (const uint32_t every : {2u, 7u, 29u}) {
        RouteCase c = random_case({.n_experts = 36,
                                   .n_used = 5,
                                   .scoring = scoring,
                                   .normalizes = every != 7,
                                   .has_shared_gate = true,
                                   .n_groups = n_groups,
                                   .n_groups_used = std::min(n_groups, 3u)},
                                  40);
        const float unusual[] = {kNan, kInfinity, -kInfinity, 1e38f, -1e38f, 0.0f};
        for (size_t i = 0; i < c.scores.size(); i += every) {
          c.scores[i] = unusual[i / every % std::size(unusual)];
        }
        for (size_t i = 0; i < 37; ++i) c.scores[i] = kNan;
        for (size_t i = 37; i < 2 * 37; ++i) c.scores[i] = -kInfinity;
        EXPECT_TRUE(agrees(both, c)) << every;
      }
    }
  }
}

// Covers every kernel: for few rows, for many rows, for floats.
TEST(CudaRoute, all_rows_may_go_to_one_expert) {
  for (const bool multiplies_fragments : {true, false}) {
    BothBackends both({.multiplies_fragments = multiplies_fragments});
    for (const ElementType type : {ElementType::kQ4_0, ElementType::kF16}) {
      for (const uint32_t n_experts : {4u, 60u, 160u}) {
        for (const uint32_t n_rows : {3u, 64u, 130u}) {
          RouteCase c = random_case({.n_experts = n_experts, .n_used = 2}, n_rows);
          c.type = type;
          for (size_t row = 0; row < n_rows; ++row) c.scores[row * n_experts + 3] = 50.0f;
          EXPECT_TRUE(agrees(both, c)) << n_rows << " rows, " << n_experts << " experts";
        }
      }
    }
  }
}

TEST(CudaRoute, the_lists_of_a_layer_do_not_hold_for_the_next_one) {
  BothBackends both;
  const RouteCase cases[] = {random_case({.n_experts = 12, .n_used = 3}, 40, 1),
                             random_case({.n_experts = 12, .n_used = 3}, 40, 2),
                             random_case({.n_experts = 9, .n_used = 2}, 2, 3)};
  for (const RouteCase& c : cases) EXPECT_TRUE(agrees(both, c));
}

TEST(CudaRoute, choosing_copies_nothing_back_and_is_as_many_launches_whatever_is_chosen) {
  BothBackends both;
  const ExpertsConfig config = {.n_experts = 20, .n_used = 4};
  std::vector<uint64_t> n_launches;
  for (const uint32_t seed : {1u, 2u}) {
    PlacedRows scores(both.cuda(), 50, 20, random_scores(config, 50, seed));
    const auto before = both.device().counters();
    EXPECT_TRUE(both.cuda().route(shape_of(config, {}, {}), scores.rows));
    const auto after = both.device().counters();
    EXPECT_EQ(after.n_copies_out, before.n_copies_out);
    EXPECT_EQ(after.n_copies_in, before.n_copies_in);
    n_launches.push_back(after.n_launches - before.n_launches);
  }
  EXPECT_EQ(n_launches, (std::vector<uint64_t>{2, 2}));
}

TEST(CudaRoute, more_experts_than_a_block_holds_are_the_callers_to_choose) {
  BothBackends both;
  PlacedRows scores(both.cuda(), 1, 2000);
  const auto shape = [](uint32_t n_experts, uint32_t n_used) {
    return RouteShape{.n_experts = n_experts, .n_used = n_used};
  };
  EXPECT_TRUE(both.cuda().route(shape(1024, 32), scores.rows.columns(0, 1024)));
  EXPECT_FALSE(both.cuda().route(shape(1025, 4), scores.rows.columns(0, 1025)));
  EXPECT_FALSE(both.cuda().route(shape(1024, 33), scores.rows.columns(0, 1024)));
}

TEST(CudaRoute, what_was_reserved_is_enough) {
  BothBackends both;
  WorkLimits limits;
  limits.n_rows = 30;
  limits.n_experts = 10;
  limits.n_expert_rows = 90;
  const uint64_t before = both.device().held_bytes();
  both.cuda().reserve(limits);
  EXPECT_LE(both.device().held_bytes() - before, both.cuda().scratch_bytes(limits));
  const ExpertsConfig config = {.n_experts = 10, .n_used = 3};
  PlacedRows scores(both.cuda(), 30, 10, random_scores(config, 30, 1));
  const uint64_t reserved = both.device().held_bytes();
  EXPECT_TRUE(both.cuda().route(shape_of(config, {}, {}), scores.rows));
  EXPECT_EQ(both.device().held_bytes(), reserved);
}

}  // namespace
}  // namespace kvik
