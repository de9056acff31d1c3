#include <gtest/gtest.h>

#include <random>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"

namespace kvik {
namespace {

using testing::FileMatrix;
using testing::OwnedRows;
using testing::random_floats;
using testing::random_matrix;
using testing::same_bytes;
using testing::weight_types;

constexpr uint32_t kExperts = 5;

struct Stack {
  std::vector<std::unique_ptr<PackedMatrix>> alone;  // by expert
  std::unique_ptr<PackedMatrix> packed;
};

Stack random_stack(Backend& backend, ElementType type, uint32_t n, uint32_t k) {
  Stack stack;
  std::vector<FileMatrix> matrices;
  for (uint32_t e = 0; e < kExperts; ++e) {
    matrices.push_back(random_matrix(type, n, k, 10 + e));
    matrices.push_back(random_matrix(type, n + 3, k, 50 + e));
  }
  std::vector<TensorView> views;
  for (const FileMatrix& matrix : matrices) views.push_back(matrix.view());
  stack.packed = *backend.pack_views(views);
  for (uint32_t e = 0; e < kExperts; ++e) {
    stack.alone.push_back(*backend.pack_views(std::span(views).subspan(2 * e, 2)));
  }
  return stack;
}

// Rows of a batch for each expert, from none to many, as a router selects them.
struct Grouping {
  std::vector<uint32_t> rows;
  std::vector<RowGroup> groups;
};

Grouping random_grouping(uint32_t n_rows, uint32_t seed) {
  std::mt19937 generator(seed);
  Grouping g;
  for (uint32_t e = 0; e < kExperts; ++e) {
    const auto first = static_cast<uint32_t>(g.rows.size());
    for (uint32_t row = 0; row < n_rows; ++row) {
      if (generator() % 3 == 0) g.rows.push_back(row);
    }
    const auto n = static_cast<uint32_t>(g.rows.size()) - first;
    if (n > 0) g.groups.push_back({e, first, n});
  }
  return g;
}

// Each row of a grouped product has the same bits as in a plain product with its expert: in any
// batch, for any type and on any instruction set.
TEST(GroupedMatmul, a_row_gets_what_its_expert_alone_would_give_it) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = *make_cpu_backend({.n_threads = 2, .isa = std::string(isa)});
    for (const ElementType type : weight_types()) {
      const uint32_t block = traits(type).block_elements;
      const uint32_t k = block > 32 ? 2 * block : 96;
      const Stack stack = random_stack(*backend, type, 37, k);
      for (const uint32_t n_rows : {1u, 7u, 50u}) {
        const Grouping g = random_grouping(n_rows, n_rows);
        const auto n_out = static_cast<uint32_t>(g.rows.size());
        const OwnedRows x(backend->memory(), n_rows, k, random_floats(size_t{n_rows} * k, 3));
        const OwnedRows out(backend->memory(), n_out, 37 + 40);
        backend->grouped_matmul(x.rows, *stack.packed, {g.rows, g.groups, kExperts}, out.rows);
        for (const RowGroup& group : g.groups) {
          for (uint32_t i = group.first; i < group.first + group.n_rows; ++i) {
            const OwnedRows want(backend->memory(), 1, 77);
            backend->matmul(x.rows.slice(g.rows[i], 1), *stack.alone[group.matrix], want.rows);
            const Rows got = out.rows.slice(i, 1);
            EXPECT_TRUE(same_bytes({got.data, got.data + 77}, want.values()))
                << isa << " " << name_of(type) << " row " << i << " of " << n_out;
          }
        }
      }
    }
  }
}

TEST(GroupedMatmul, without_a_list_rows_are_taken_in_their_order) {
  const auto backend = *make_cpu_backend({.n_threads = 2, .isa = {}});
  const Stack stack = random_stack(*backend, ElementType::kQ8_0, 37, 96);
  const Grouping g = random_grouping(40, 1);
  const auto n = static_cast<uint32_t>(g.rows.size());
  const OwnedRows x(backend->memory(), 40, 96, random_floats(40 * 96, 3));
  const OwnedRows gathered(backend->memory(), n, 96);
  backend->gather(x.rows, g.rows, gathered.rows);
  const OwnedRows one(backend->memory(), n, 77), two(backend->memory(), n, 77);
  backend->grouped_matmul(x.rows, *stack.packed, {g.rows, g.groups, kExperts}, one.rows);
  backend->grouped_matmul(gathered.rows, *stack.packed, {{}, g.groups, kExperts}, two.rows);
  EXPECT_TRUE(same_bytes(one.values(), two.values()));
}

TEST(AddWeighted, terms_are_added_in_their_order) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = *make_cpu_backend({.n_threads = 2, .isa = std::string(isa)});
    const auto x_values = random_floats(2 * 19, 1);
    const auto y_values = random_floats(4 * 19, 2);
    const OwnedRows x(backend->memory(), 2, 19, x_values), y(backend->memory(), 4, 19, y_values);
    const std::vector<uint32_t> rows = {3, 0, 1, 3};
    const std::vector<float> weights = {0.25f, 0.7f, -1.5f, 1e-3f};
    backend->add_weighted(x.rows, y.rows, {rows, weights, 2});
    std::vector<float> want = x_values;
    for (size_t term = 0; term < 4; ++term) {
      for (size_t i = 0; i < 19; ++i) {
        float& sum = want[term / 2 * 19 + i];
        sum = std::fma(y_values[rows[term] * 19 + i], weights[term], sum);
      }
    }
    EXPECT_TRUE(same_bytes(x.values(), want)) << isa;
  }
}

}  // namespace
}  // namespace kvik
