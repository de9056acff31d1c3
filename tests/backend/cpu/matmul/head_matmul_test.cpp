#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"

namespace kvik {
namespace {

using testing::FileMatrix;
using testing::OwnedRows;
using testing::random_floats;
using testing::random_matrix;
using testing::same_bytes;

constexpr uint32_t kHeads = 3;

// Each head of each row gets the result of a plain product with its matrix, wherever the heads are
// in their rows.
TEST(HeadMatmul, a_head_gets_what_its_matrix_alone_would_give_it) {
  constexpr uint32_t n = 37, k = 64;
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = *make_cpu_backend({.n_threads = 2, .isa = std::string(isa)});
    for (const ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kQ8_0}) {
      std::vector<FileMatrix> matrices;
      std::vector<TensorView> views;
      std::vector<std::unique_ptr<PackedMatrix>> alone;
      for (uint32_t h = 0; h < kHeads; ++h) matrices.push_back(random_matrix(type, n, k, 7 + h));
      for (const FileMatrix& matrix : matrices) {
        views.push_back(matrix.view());
        alone.push_back(*backend->pack_views(std::span(&views.back(), 1)));
      }
      const auto packed = *backend->pack_views(views);
      const uint32_t x_step = k + 5, out_step = n + 11, before = 3;
      for (const uint32_t n_rows : {1u, 2u, 19u}) {
        const uint32_t x_cols = before + kHeads * x_step, out_cols = before + kHeads * out_step;
        const OwnedRows x(backend->memory(), n_rows, x_cols,
                          random_floats(size_t{n_rows} * x_cols, 4));
        const OwnedRows out(backend->memory(), n_rows, out_cols);
        backend->head_matmul({x.rows, kHeads, x_step, before, k}, *packed,
                             {out.rows, kHeads, out_step, before, n});
        for (uint32_t h = 0; h < kHeads; ++h) {
          for (uint32_t row = 0; row < n_rows; ++row) {
            const OwnedRows want(backend->memory(), 1, n);
            backend->matmul(x.rows.slice(row, 1).columns(before + h * x_step, k), *alone[h],
                            want.rows);
            const float* got = out.rows.slice(row, 1).data + before + h * out_step;
            EXPECT_TRUE(same_bytes({got, got + n}, want.values()))
                << isa << " " << name_of(type) << " head " << h << " row " << row;
            EXPECT_EQ(got[n], 0.0f);
          }
        }
      }
    }
  }
}

TEST(CopyHeads, takes_some_columns_of_every_head_and_no_others) {
  const auto backend = *make_cpu_backend({.n_threads = 2, .isa = {}});
  const OwnedRows x(backend->memory(), 4, 30, random_floats(4 * 30, 1));
  const OwnedRows out(backend->memory(), 4, 21);
  backend->copy_heads({x.rows, 3, 10, 6, 4}, {out.rows, 3, 7, 2, 4});
  for (uint32_t row = 0; row < 4; ++row) {
    for (uint32_t col = 0; col < 21; ++col) {
      const uint32_t in_head = col % 7;
      const bool is_copied = in_head >= 2 && in_head < 6;
      const float want = is_copied ? x.rows.data[row * 30 + col / 7 * 10 + 6 + in_head - 2] : 0.0f;
      EXPECT_EQ(out.rows.data[row * 21 + col], want) << row << " " << col;
    }
  }
}

TEST(GroupedBias, each_row_gets_that_of_its_matrix) {
  const auto backend = *make_cpu_backend({.n_threads = 2, .isa = {}});
  const OwnedRows x(backend->memory(), 5, 3);
  const std::vector<float> biases = {1, 2, 3, 10, 20, 30, 100, 200, 300};
  const std::vector<RowGroup> groups = {{0, 0, 2}, {2, 2, 3}};
  backend->add_grouped_bias(x.rows, biases.data(), {{}, groups, 3});
  EXPECT_EQ(x.values(),
            (std::vector<float>{1, 2, 3, 1, 2, 3, 100, 200, 300, 100, 200, 300, 100, 200, 300}));
}

TEST(ScaleRows, each_row_has_a_factor_of_its_own) {
  const auto backend = *make_cpu_backend({.n_threads = 2, .isa = {}});
  const OwnedRows x(backend->memory(), 3, 2, std::vector<float>{1, 2, 3, 4, 5, 6});
  backend->scale_rows(x.rows, std::vector<float>{1, -2, 0.5f});
  EXPECT_EQ(x.values(), (std::vector<float>{1, 2, -6, -8, 2.5f, 3}));
}

}  // namespace
}  // namespace kvik
