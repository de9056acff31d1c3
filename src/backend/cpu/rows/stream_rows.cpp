#include "backend/cpu/rows/stream_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backend/exact_math.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

// A row of the matrix that mixes the streams, or a column of it.
struct Line {
  double* first;
  uint32_t step;
};

// Divides the numbers of a line by their sum + eps.
void normalize(Line line, uint32_t n, double eps) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += line.first[i * line.step];
  const double factor = 1.0 / (sum + eps);
  for (uint32_t i = 0; i < n; ++i) line.first[i * line.step] *= factor;
}

// Replaces the n numbers by their softmax + eps.
void softmax(double* x, uint32_t n, double eps) {
  const double most = *std::max_element(x, x + n);
  for (uint32_t i = 0; i < n; ++i) x[i] = exact_exp(x[i] - most);
  normalize({x, 1}, n, 0.0);
  for (uint32_t i = 0; i < n; ++i) x[i] += eps;
}

}  // namespace

void compute_stream_weights(const StreamWeightShape& shape, float* row) {
  const uint32_t n = shape.n;
  const double eps = shape.eps;
  CHECK(n <= kMaxStreams);
  const auto scaled = [&](uint32_t i, uint32_t part) {
    return double{row[i]} * shape.scales[part] + shape.base[i];
  };
  for (uint32_t i = 0; i < n; ++i) {
    row[i] = static_cast<float>(exact_sigmoid(scaled(i, 0)) + eps);
  }
  if (shape.n_iterations == 0) return;
  for (uint32_t i = n; i < 2 * n; ++i) {
    row[i] = static_cast<float>(2.0 * exact_sigmoid(scaled(i, 1)));
  }
  std::array<double, size_t{kMaxStreams} * kMaxStreams> mix;
  for (uint32_t i = 0; i < n * n; ++i) mix[i] = scaled(2 * n + i, 2);
  for (uint32_t i = 0; i < n; ++i) softmax(mix.data() + i * n, n, eps);
  for (uint32_t iteration = 0; iteration < shape.n_iterations; ++iteration) {
    for (uint32_t i = 0; iteration > 0 && i < n; ++i) normalize({mix.data() + i * n, 1}, n, eps);
    for (uint32_t j = 0; j < n; ++j) normalize({mix.data() + j, n}, n, eps);
  }
  for (uint32_t j = 0; j < n; ++j) {
    for (uint32_t i = 0; i < n; ++i) {
      row[2 * n + j * n + i] = static_cast<float>(mix[i * n + j]);
    }
  }
}

void limit_row(float* x, float most, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) x[i] = std::min(x[i], most);
}

float head_gate(double product, uint32_t dim) {
  const double g = product / std::sqrt(static_cast<double>(dim));
  const double root = std::sqrt(std::max(std::abs(g), 1e-6));
  return static_cast<float>(exact_sigmoid(g > 0 ? root : g < 0 ? -root : 0.0));
}

}  // namespace kvik::cpu
