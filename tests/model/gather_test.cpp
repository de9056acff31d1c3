#include <gtest/gtest.h>

#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "catalogue/tensor_roles.h"
#include "format/synthetic/synthetic.h"
#include "model/tensor_loader.h"
#include "support/memory_source.h"

namespace kvik {
namespace {

constexpr const char* kName = "blk.0.attn_output.weight";

// Returns the product of the matrix with x, which has one row.
std::vector<float> product(MemorySource& source, Backend& backend, const std::vector<float>& x) {
  const TensorLoader::Progress silent = [](uint64_t, uint64_t) {};
  const TensorTable table(*read_config(source.metadata()));
  TensorLoader loader(source, backend, table, silent);
  const auto matrix = loader.matrix({TensorRole::kAttentionOutput});
  EXPECT_TRUE(matrix);
  const uint32_t n_rows = (*matrix)->n_rows(), n_cols = (*matrix)->n_cols();
  const Buffer in = backend.memory().allocate(n_cols * sizeof(float));
  const Buffer out = backend.memory().allocate(n_rows * sizeof(float));
  backend.memory().copy_in(in.data(), std::as_bytes(std::span(x)));
  backend.matmul({in.floats(), 1, n_cols, n_cols}, **matrix, {out.floats(), 1, n_rows, n_rows});
  return {out.floats(), out.floats() + n_rows};
}

TEST(TensorLoader, a_matrix_that_its_source_has_sorted_meets_the_activations_in_that_order) {
  const auto backend = *make_cpu_backend({.n_threads = 1, .isa = ""});
  const auto original = *make_synthetic("synthetic:test-llama:q8_0");
  MemorySource source(*original);
  const auto n_cols = static_cast<uint32_t>(source.info(kName).shape.back());
  std::vector<float> x(n_cols), sorted(n_cols);
  std::vector<uint32_t> order(n_cols);
  for (uint32_t i = 0; i < n_cols; ++i) {
    x[i] = static_cast<float>(i % 19) - 7.5f;
    order[i] = (i * 101 + 3) % n_cols;
  }
  for (uint32_t i = 0; i < n_cols; ++i) sorted[i] = x[order[i]];
  const std::vector<float> want = product(source, *backend, sorted);
  const std::vector<float> in_file_order = product(source, *backend, x);
  source.set_gather(kName, order);
  const std::vector<float> got = product(source, *backend, x);
  EXPECT_EQ(got, want);
  EXPECT_NE(got, in_file_order);
}

}  // namespace
}  // namespace kvik
