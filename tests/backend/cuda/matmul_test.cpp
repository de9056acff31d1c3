#include <fmt/format.h>

#include "backend/cuda/both_backends.h"

namespace kvik {
namespace {

using testing::BothBackends;
using testing::FileMatrix;
using testing::PlacedRows;
using testing::random_floats;
using testing::random_matrix;

constexpr ElementType kTypes[] = {ElementType::kF32,  ElementType::kF16,  ElementType::kBF16,
                                  ElementType::kQ8_0, ElementType::kQ4_0, ElementType::kQ4_K,
                                  ElementType::kQ5_K, ElementType::kQ6_K, ElementType::kMXFP4};

std::unique_ptr<PackedMatrix> packed(Backend& backend, std::span<const FileMatrix> parts) {
  std::vector<TensorView> views;
  for (const FileMatrix& part : parts) views.push_back(part.view());
  auto matrix = backend.pack_views(views);
  EXPECT_TRUE(matrix);
  return std::move(*matrix);
}

// Returns values of k around the number of blocks that warps multiply between two barriers.
std::vector<uint32_t> some_k(ElementType type) {
  const auto block = static_cast<uint32_t>(traits(type).block_elements);
  if (block == 1) return {1, 2, 63, 64, 65, 200};
  if (block == 32) return {32, 31 * 32, 33 * 32, 64 * 32};
  return {256, 5 * 256};
}

std::vector<float> random_rows(uint32_t n_rows, uint32_t n_cols, uint32_t seed) {
  return random_floats(size_t{n_rows} * n_cols, seed);
}

TEST(CudaMatmul, products_have_the_cpus_bits_for_every_type_and_any_number_of_rows) {
  BothBackends both;
  for (const ElementType type : kTypes) {
    for (const uint32_t k : some_k(type)) {
      const FileMatrix w = random_matrix(type, 45, k, 1);
      for (const uint32_t n_rows : {1u, 2u, 4u, 5u, 9u, 17u, 33u}) {
        EXPECT_TRUE(both.agree([&](Backend& backend) {
          const auto matrix = packed(backend, {&w, 1});
          PlacedRows x(backend, n_rows, k, random_rows(n_rows, k, 2));
          PlacedRows out(backend, n_rows, 45);
          backend.matmul(x.rows, *matrix, out.rows);
          backend.matmul_add(x.rows, *matrix, out.rows);
          return out.values();
        })) << fmt::format("{} k {} rows {}", traits(type).name, k, n_rows);
      }
    }
  }
}

TEST(CudaMatmul, a_row_has_the_same_bits_by_every_kernel) {
  for (const ElementType type : {ElementType::kQ4_K, ElementType::kQ6_K, ElementType::kQ4_0}) {
    const FileMatrix w = random_matrix(type, 33, 512, 1);
    const std::vector<float> x = random_rows(70, 512, 2);
    for (const bool multiplies_fragments : {false, true}) {
      BothBackends both({.multiplies_fragments = multiplies_fragments});
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        const auto matrix = packed(backend, {&w, 1});
        PlacedRows in(backend, 70, 512, x);
        PlacedRows out(backend, 70, 33);
        backend.matmul(in.rows, *matrix, out.rows);
        return out.values();
      })) << traits(type).name;
    }
  }
}

TEST(CudaMatmul, columns_of_one_and_of_whole_panels_are_those_of_the_matrix) {
  BothBackends both;
  for (const uint32_t n : {1u, 31u, 32u, 33u, 64u, 97u}) {
    const FileMatrix w = random_matrix(ElementType::kQ4_0, n, 64, 1);
    for (const uint32_t n_rows : {1u, 20u}) {
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        const auto matrix = packed(backend, {&w, 1});
        PlacedRows x(backend, n_rows, 64, random_rows(n_rows, 64, 2));
        PlacedRows out(backend, n_rows, n);
        backend.matmul(x.rows, *matrix, out.rows);
        return out.values();
      })) << n;
    }
  }
}

TEST(CudaMatmul, stacked_matrices_of_one_type_and_of_several_stand_side_by_side) {
  BothBackends both;
  const FileMatrix parts[] = {
      random_matrix(ElementType::kQ4_0, 64, 256, 1), random_matrix(ElementType::kQ4_0, 33, 256, 2),
      random_matrix(ElementType::kQ4_0, 32, 256, 3), random_matrix(ElementType::kBF16, 5, 256, 4),
      random_matrix(ElementType::kQ6_K, 40, 256, 5)};
  for (const uint32_t n_rows : {1u, 6u, 40u}) {
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      const auto matrix = packed(backend, parts);
      PlacedRows x(backend, n_rows, 256, random_rows(n_rows, 256, 6));
      PlacedRows out(backend, n_rows, matrix->n_rows());
      backend.matmul(x.rows, *matrix, out.rows);
      return out.values();
    })) << n_rows;
  }
}

TEST(CudaMatmul, parts_that_lie_like_one_are_one_kernel) {
  BothBackends both;
  const FileMatrix parts[] = {random_matrix(ElementType::kQ4_0, 64, 256, 1),
                              random_matrix(ElementType::kQ4_0, 32, 256, 2),
                              random_matrix(ElementType::kQ4_0, 32, 256, 3)};
  const auto matrix = packed(both.cuda(), parts);
  PlacedRows x(both.cuda(), 1, 256, random_rows(1, 256, 6));
  PlacedRows out(both.cuda(), 1, 128);
  const uint64_t before = both.device().counters().n_launches;
  both.cuda().matmul(x.rows, *matrix, out.rows);
  EXPECT_EQ(both.device().counters().n_launches - before, 2u);  // quantization, and the product
}

// GPTQ's act-order: column j of a product uses x[gather[j]].
TEST(CudaMatmul, activations_are_taken_in_the_order_that_weights_ask_for) {
  BothBackends both;
  std::vector<uint32_t> order(256);
  for (uint32_t i = 0; i < 256; ++i) order[i] = i * 37 % 256;
  const FileMatrix w = random_matrix(ElementType::kQ4_0, 40, 256, 1);
  const FileMatrix plain = random_matrix(ElementType::kQ4_0, 40, 256, 2);
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    TensorView views[] = {w.view(), plain.view(), w.view()};
    views[0].gather = views[2].gather = order;
    const auto matrix = std::move(*backend.pack_views(views));
    PlacedRows x(backend, 3, 256, random_rows(3, 256, 3));
    PlacedRows out(backend, 3, 120);
    backend.matmul(x.rows, *matrix, out.rows);
    return out.values();
  }));
}

TEST(CudaMatmul, rows_of_experts_meet_their_own_matrices) {
  BothBackends both;
  for (const ElementType type : {ElementType::kQ4_K, ElementType::kMXFP4, ElementType::kF16}) {
    std::vector<FileMatrix> experts;
    for (uint32_t i = 0; i < 4; ++i) {  // gate and up of each expert
      experts.push_back(random_matrix(type, 40, 256, 2 * i));
      experts.push_back(random_matrix(type, 40, 256, 2 * i + 1));
    }
    const std::vector<uint32_t> rows = {0, 4, 2, 1, 3, 4, 0, 2, 3, 1, 2, 4};
    const RowGroup groups[] = {{0, 0, 2}, {1, 2, 1}, {3, 3, 9}};
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      const auto matrix = packed(backend, experts);
      PlacedRows x(backend, 5, 256, random_rows(5, 256, 6));
      PlacedRows out(backend, 12, 80);
      backend.grouped_matmul(x.rows, *matrix, {rows, groups, 4}, out.rows);
      return out.values();
    })) << traits(type).name;
    EXPECT_TRUE(both.agree([&](Backend& backend) {  // many rows in order
      const auto matrix = packed(backend, experts);
      PlacedRows x(backend, 90, 256, random_rows(90, 256, 6));
      PlacedRows out(backend, 90, 80);
      const RowGroup in_order[] = {{1, 0, 3}, {2, 3, 70}, {3, 73, 17}};
      backend.grouped_matmul(x.rows, *matrix, {{}, in_order, 4}, out.rows);
      return out.values();
    })) << traits(type).name;
  }
}

TEST(CudaMatmul, heads_meet_their_own_matrices) {
  BothBackends both;
  for (const ElementType type : {ElementType::kQ8_0, ElementType::kBF16}) {
    std::vector<FileMatrix> heads;
    for (uint32_t i = 0; i < 3; ++i) heads.push_back(random_matrix(type, 37, 64, i));
    for (const uint32_t n_rows : {1u, 5u, 20u}) {
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        const auto matrix = packed(backend, heads);
        PlacedRows x(backend, n_rows, 3 * 80, random_rows(n_rows, 3 * 80, 6));
        PlacedRows out(backend, n_rows, 3 * 41);
        backend.head_matmul({x.rows, 3, 80, 7, 64}, *matrix, {out.rows, 3, 41, 4, 37});
        return out.values();
      })) << traits(type).name;
    }
  }
}

TEST(CudaMatmul, rows_of_a_table_are_dequantized_as_on_the_cpu) {
  BothBackends both;
  const std::vector<TokenId> tokens = {0, 44, 31, 32, 33, 44};
  for (const ElementType type : kTypes) {
    const uint32_t k = some_k(type).back();
    const FileMatrix parts[] = {random_matrix(type, 20, k, 1), random_matrix(type, 25, k, 2)};
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      const auto table = packed(backend, parts);
      PlacedRows out(backend, 6, k);
      backend.embed(*table, tokens, out.rows);
      return out.values();
    })) << traits(type).name;
  }
}

// Rows of zeros, with one huge value, and of tiny values, which test the scale of a row.
TEST(CudaMatmul, unusual_activations_become_the_cpus_levels) {
  BothBackends both;
  const FileMatrix w = random_matrix(ElementType::kQ4_K, 33, 512, 1);
  std::vector<float> x = random_rows(6, 512, 2);
  std::fill_n(x.begin(), 512, 0.0f);
  x[512 + 100] = 1e30f;
  for (uint32_t i = 0; i < 512; ++i) x[2 * 512 + i] *= 1e-35f;
  for (uint32_t i = 0; i < 512; ++i) x[3 * 512 + i] *= std::ldexp(1.0f, static_cast<int>(i / 32));
  for (uint32_t i = 0; i < 64; ++i) x[4 * 512 + i] = 0.0f;
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    const auto matrix = packed(backend, {&w, 1});
    PlacedRows in(backend, 6, 512, x);
    PlacedRows out(backend, 6, 33);
    backend.matmul(in.rows, *matrix, out.rows);
    return out.values();
  }));
}

TEST(CudaMatmul, types_without_kernels_are_refused_by_name) {
  BothBackends both;
  const FileMatrix w = random_matrix(ElementType::kQ5_0, 32, 64, 1);
  EXPECT_FALSE(both.cuda().can_compute(ElementType::kQ5_0));
  const TensorView view = w.view();
  const auto refused = both.cuda().pack_views({&view, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  const std::string types = computable_types(both.cuda());
  EXPECT_EQ(refused.error().message,
            "q5_0 weights are not supported on a GPU: expected one of " + types);
  EXPECT_EQ(types.find("q5_0"), std::string::npos);
  for (const ElementType type : {ElementType::kF32, ElementType::kQ8_0, ElementType::kMXFP4}) {
    EXPECT_TRUE(both.cuda().can_compute(type));
    EXPECT_NE(types.find(name_of(type)), std::string::npos);
  }
}

TEST(CudaMatmul, a_matrix_that_is_times_a_number_is_refused) {
  BothBackends both;
  const FileMatrix w = random_matrix(ElementType::kQ8_0, 32, 64, 1);
  TensorView view = w.view();
  view.scale = 2;
  const auto refused = both.cuda().pack_views({&view, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

// More rows than a grid can have.
TEST(CudaMatmul, any_number_of_rows_is_looked_up) {
  BothBackends both;
  for (const ElementType type : {ElementType::kF32, ElementType::kQ8_0}) {
    const FileMatrix w = random_matrix(type, 5, 32, 1);
    std::vector<TokenId> tokens(65540);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<TokenId>(i * 7 % 5);
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      const TensorView view = w.view();
      const auto table = std::move(*backend.pack_views({&view, 1}));
      PlacedRows out(backend, static_cast<uint32_t>(tokens.size()), 32);
      backend.embed(*table, tokens, out.rows);
      return out.values();
    }));
  }
}

TEST(CudaMatmul, a_matrix_that_finds_no_memory_is_an_error_and_leaves_none_behind) {
  BothBackends both({.memory_bytes = 10000});
  const FileMatrix w = random_matrix(ElementType::kF32, 64, 64, 1);
  const TensorView view = w.view();
  const auto refused = both.cuda().pack_views({&view, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kExhausted);
  EXPECT_EQ(both.device().held_bytes(), 0u);
}

}  // namespace
}  // namespace kvik
