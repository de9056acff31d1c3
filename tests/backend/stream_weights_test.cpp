#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/random_matrix.h"
#include "backend/selection.h"

// Weights of residual streams (manifold-constrained hyper-connections).
namespace kvik {
namespace {

using testing::backend_of;
using testing::OwnedRows;
using testing::random_floats;

constexpr uint32_t kRows = 7;

struct Case {
  uint32_t n = 4;
  uint32_t n_iterations = 20;
  float eps = 1e-6f;
  std::vector<float> base = {}, scales = {};

  StreamWeightShape shape() const {
    return {.n = n, .n_iterations = n_iterations, .eps = eps, .base = base, .scales = scales};
  }
};

Case case_of(uint32_t n, uint32_t n_iterations, float eps = 1e-6f) {
  Case c{.n = n, .n_iterations = n_iterations, .eps = eps};
  c.base = random_floats(c.shape().n_cols(), 3);
  c.scales = {1.5f, -0.7f, 2.25f};
  if (n_iterations == 0) c.scales.resize(1);
  return c;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Returns the weights of a row by the formula, mix not transposed.
std::vector<double> expected(const Case& c, const float* row) {
  const uint32_t n = c.n;
  std::vector<double> out(c.shape().n_cols());
  for (uint32_t i = 0; i < out.size(); ++i) {
    const uint32_t part = i < n ? 0 : i < 2 * n ? 1 : 2;
    const double x = double{row[i]} * c.scales[part] + c.base[i];
    out[i] = part == 0 ? sigmoid(x) + c.eps : part == 1 ? 2 * sigmoid(x) : std::exp(x);
  }
  const auto at = [&](uint32_t i, uint32_t j) -> double& { return out[2 * n + i * n + j]; };
  const auto divide = [&](bool rows, double eps) {
    for (uint32_t a = 0; a < n; ++a) {
      double sum = eps;
      for (uint32_t b = 0; b < n; ++b) sum += rows ? at(a, b) : at(b, a);
      for (uint32_t b = 0; b < n; ++b) (rows ? at(a, b) : at(b, a)) /= sum;
    }
  };
  if (c.n_iterations == 0) return out;
  divide(true, 0);
  for (uint32_t i = 2 * n; i < out.size(); ++i) out[i] += c.eps;
  divide(false, c.eps);
  for (uint32_t i = 1; i < c.n_iterations; ++i) {
    divide(true, c.eps);
    divide(false, c.eps);
  }
  return out;
}

std::vector<float> computed(Backend& backend, const Case& c, const std::vector<float>& x) {
  const OwnedRows rows(backend.memory(), kRows, c.shape().n_cols(), x);
  backend.stream_weights(rows.rows, c.shape());
  return rows.values();
}

TEST(StreamWeights, they_follow_the_formula_with_the_same_bits_on_all_sets) {
  for (const Case& c : {case_of(4, 20), case_of(4, 1), case_of(2, 3, 0.125f), case_of(16, 5),
                        case_of(4, 0), case_of(5, 0, 0.25f)}) {
    const uint32_t n_cols = c.shape().n_cols();
    auto x = random_floats(kRows * n_cols, 1);
    for (float& value : x) value *= 5;
    std::vector<float> first;
    for (const std::string_view isa : cpu_isa_names()) {
      const std::vector<float> weights = computed(*backend_of(isa), c, x);
      if (first.empty()) first = weights;
      EXPECT_EQ(weights, first) << isa;
    }
    for (uint32_t row = 0; row < kRows; ++row) {
      const std::vector<double> wanted = expected(c, x.data() + row * n_cols);
      for (uint32_t i = 0; i < n_cols; ++i) {
        const uint32_t at = i - 2 * c.n;
        const uint32_t from = i < 2 * c.n ? i : 2 * c.n + at % c.n * c.n + at / c.n;
        EXPECT_NEAR(first[row * n_cols + i], wanted[from], 1e-6 * (1e-3 + wanted[from]))
            << "n " << c.n << " row " << row << " at " << i;
      }
    }
  }
}

TEST(StreamWeights, rows_and_columns_of_the_mix_sum_to_one) {
  const Case c = case_of(4, 20);
  const auto x = random_floats(kRows * c.shape().n_cols(), 2);
  const std::vector<float> weights = computed(*backend_of("scalar"), c, x);
  for (uint32_t row = 0; row < kRows; ++row) {
    const float* mix = weights.data() + row * c.shape().n_cols() + 2 * c.n;
    for (uint32_t i = 0; i < c.n; ++i) {
      double across = 0, down = 0;
      for (uint32_t j = 0; j < c.n; ++j) {
        across += mix[i * c.n + j];
        down += mix[j * c.n + i];
      }
      EXPECT_NEAR(across, 1, 1e-5);  // columns of the mix, which were normalized last
      EXPECT_NEAR(down, 1, 0.01);
    }
  }
}

TEST(StreamWeights, large_projections_stay_finite) {
  Case c = case_of(4, 20);
  std::vector<float> x(kRows * c.shape().n_cols());
  for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? 1e30f : -1e30f;
  for (const float weight : computed(*backend_of("scalar"), c, x)) {
    EXPECT_TRUE(std::isfinite(weight));
  }
}

}  // namespace
}  // namespace kvik
