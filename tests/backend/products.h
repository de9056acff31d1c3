#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"
#include "tensor/block_format.h"

// Matrix products computed by a backend, and their expected values.
namespace kvik::testing {

inline std::unique_ptr<Backend> backend_of(std::string_view isa, uint32_t n_threads = 2) {
  auto backend = make_cpu_backend({n_threads, std::string(isa)});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

inline std::unique_ptr<PackedMatrix> pack(Backend& backend,
                                          std::initializer_list<FileMatrix> parts) {
  std::vector<TensorView> views;
  for (const FileMatrix& part : parts) views.push_back(part.view());
  auto packed = backend.pack_views(views);
  EXPECT_TRUE(packed);
  return std::move(*packed);
}

inline std::vector<float> product(Backend& backend, const std::vector<float>& x, uint32_t n_rows,
                                  const PackedMatrix& w) {
  OwnedRows in(backend.memory(), n_rows, w.n_cols(), x);
  OwnedRows out(backend.memory(), n_rows, w.n_rows());
  backend.matmul(in.rows, w, out.rows);
  return out.values();
}

// Returns whether activations are quantized as well.
inline bool is_quantized(ElementType type) { return block_format(type) != nullptr; }

// Returns one row of activations as products with quantized weights use it: level · scale of the
// row · power of two of the block. Of four row scales, the one with the least error is used.
inline std::vector<double> levelled(std::span<const float> x) {
  const auto peak_of = [](std::span<const float> values) {
    float peak = 0;
    for (const float v : values) peak = std::max(peak, std::fabs(v));
    return peak;
  };
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (int quarter = 0; quarter < 4; ++quarter) {
    const double row_scale = peak_of(x) / 127.0 * std::exp2(quarter / 4.0);
    std::vector<double> seen(x.size());
    double noise = 0;
    for (size_t begin = 0; begin < x.size(); begin += 32) {
      const double share = peak_of(x.subspan(begin, 32)) / 127.0 / row_scale;
      const double step = row_scale * std::exp2(std::ceil(std::log2(share) - 1e-7));
      noise += step * step;
      for (size_t i = begin; i < begin + 32; ++i) {
        seen[i] = std::clamp(std::nearbyint(x[i] / step), -127.0, 127.0) * step;
      }
    }
    if (noise < least) {
      least = noise;
      best = seen;
    }
  }
  return best;
}

// Returns the product in double; for quantized weights, x is rounded to the specified levels.
inline std::vector<double> plain_product(const std::vector<float>& x, uint32_t n_rows,
                                         const FileMatrix& w) {
  const uint32_t k = w.n_cols;
  std::vector<double> seen(x.begin(), x.end());
  if (is_quantized(w.type)) {
    for (uint32_t m = 0; m < n_rows; ++m) {
      std::ranges::copy(levelled(std::span(x).subspan(size_t{m} * k, k)),
                        seen.begin() + size_t{m} * k);
    }
  }
  std::vector<double> out(size_t{n_rows} * w.n_rows);
  for (uint32_t m = 0; m < n_rows; ++m) {
    for (uint32_t n = 0; n < w.n_rows; ++n) {
      double sum = 0;
      for (uint32_t i = 0; i < k; ++i) sum += seen[size_t{m} * k + i] * w.values[size_t{n} * k + i];
      out[size_t{m} * w.n_rows + n] = sum;
    }
  }
  return out;
}

}  // namespace kvik::testing
