#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "format/synthetic/synthetic.h"
#include "model/tensor_loader.h"
#include "support/memory_source.h"

namespace kvik {
namespace {

constexpr uint32_t kRows = 64, kCols = 256;

// The product of a matrix of the source with x, of one row.
std::vector<float> product(MemorySource& source, Backend& backend, const std::vector<float>& x) {
  const TensorLoader::Progress silent = [](uint64_t, uint64_t) {};
  TensorLoader loader(source, backend, silent);
  const auto matrix = loader.matrix({{"w", kRows}}, kCols);
  EXPECT_TRUE(matrix);
  const Buffer in = backend.memory().allocate(kCols * sizeof(float));
  const Buffer out = backend.memory().allocate(kRows * sizeof(float));
  backend.memory().copy_in(in.data(), std::as_bytes(std::span(x)));
  backend.matmul({in.floats(), 1, kCols, kCols}, **matrix, {out.floats(), 1, kRows, kRows});
  return {out.floats(), out.floats() + kRows};
}

TEST(TensorLoader, a_matrix_that_its_source_has_sorted_meets_the_activations_in_that_order) {
  const auto backend = *make_cpu_backend({.n_threads = 1, .isa = ""});
  const auto original = *make_synthetic("synthetic:test-llama:q8_0");
  MemorySource source(*original);
  const size_t row_bytes = kCols / 32 * 34;
  std::vector<std::byte> bytes(kRows * row_bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i % 34 == 1 ? 0x38 : i * 37);  // scales about a half
  }
  source.add({"w", ElementType::kQ8_0, {kRows, kCols}, bytes.size()}, bytes);
  std::vector<float> x(kCols), sorted(kCols);
  std::vector<uint32_t> order(kCols);
  for (uint32_t i = 0; i < kCols; ++i) {
    x[i] = static_cast<float>(i % 19) - 7.5f;
    order[i] = (i * 101 + 3) % kCols;
  }
  for (uint32_t i = 0; i < kCols; ++i) sorted[i] = x[order[i]];
  const std::vector<float> want = product(source, *backend, sorted);
  const std::vector<float> in_file_order = product(source, *backend, x);
  source.set_gather("w", order);
  const std::vector<float> got = product(source, *backend, x);
  EXPECT_EQ(std::memcmp(got.data(), want.data(), kRows * sizeof(float)), 0);
  EXPECT_NE(got, in_file_order);
}

}  // namespace
}  // namespace kvik
