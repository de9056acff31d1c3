#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "backend/cpu/cpu_backend.h"
#include "backend/products.h"
#include "backend/random_matrix.h"
#include "tensor/blocks_32.h"
#include "tensor/tensor_digest.h"

namespace kvik {
namespace {

using namespace testing;

// Returns k rounded up to whole blocks.
uint32_t whole_blocks(ElementType type, uint32_t k) {
  const uint32_t block = traits(type).block_elements;
  return (k + block - 1) / block * block;
}

struct Shape {
  uint32_t n, k;
};

std::vector<Shape> odd_shapes(ElementType type) {
  const uint32_t block = traits(type).block_elements;
  if (block == 256) return {{1, 256}, {17, 512}, {67, 1280}, {33, 4608}};
  if (block > 32) return {{1, block}, {17, 3 * block}, {67, 9 * block}, {33, 1152}};
  if (block == 32) return {{1, 32}, {15, 64}, {17, 96}, {100, 544}, {67, 1056}};
  return {{1, 1}, {15, 7}, {17, 33}, {100, 301}, {67, 1057}};
}

constexpr uint32_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 64};

TEST(Matmul, the_scalar_kernels_compute_the_product_that_the_file_states) {
  const auto backend = backend_of("scalar");
  for (const ElementType type : weight_types()) {
    for (const auto [n, k] : odd_shapes(type)) {
      const FileMatrix w = random_matrix(type, n, k, n);
      const std::vector<float> x = random_floats(size_t{5} * k, k);
      const std::vector<float> got = product(*backend, x, 5, *pack(*backend, {w}));
      const std::vector<double> want = plain_product(x, 5, w);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 2e-5 * std::sqrt(k)) << name_of(type) << " " << n << "x" << k;
      }
    }
  }
}

TEST(Matmul, every_instruction_set_gives_the_bits_of_the_scalar_one) {
  const auto scalar = backend_of("scalar");
  std::vector<std::unique_ptr<Backend>> others;
  for (const std::string_view isa : cpu_isa_names()) {
    if (isa != "scalar") others.push_back(backend_of(isa));
  }
  for (const ElementType type : weight_types()) {
    for (const auto [n, k] : odd_shapes(type)) {
      const FileMatrix w = random_matrix(type, n, k, n);
      const auto w_scalar = pack(*scalar, {w});
      std::vector<std::unique_ptr<PackedMatrix>> packed;
      for (const auto& other : others) packed.push_back(pack(*other, {w}));
      for (const uint32_t m : kRowCounts) {
        const std::vector<float> x = random_floats(size_t{m} * k, m);
        const std::vector<float> want = product(*scalar, x, m, *w_scalar);
        for (size_t i = 0; i < others.size(); ++i) {
          if (!others[i]->arithmetic(type).empty()) continue;  // rounds x to bf16
          ASSERT_TRUE(same_bytes(want, product(*others[i], x, m, *packed[i])))
              << others[i]->name() << " " << name_of(type) << " " << m << "x" << n << "x" << k;
        }
      }
    }
  }
}

bool has_isa(std::string_view isa) { return std::ranges::count(cpu_isa_names(), isa) > 0; }

TEST(Matmul, products_of_bf16_instructions_are_those_of_activations_rounded_to_bf16) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    if (backend->arithmetic(ElementType::kBF16).empty()) continue;
    for (const auto [n, k] : odd_shapes(ElementType::kBF16)) {
      const FileMatrix w = random_matrix(ElementType::kBF16, n, k, n);
      std::vector<float> x = random_floats(size_t{13} * k, k);
      const std::vector<float> got = product(*backend, x, 13, *pack(*backend, {w}));
      for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
      const std::vector<double> want = plain_product(x, 13, w);
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 2e-5 * std::sqrt(k)) << isa << " " << n << "x" << k;
      }
    }
  }
}

TEST(Matmul, amx_tiles_add_in_the_order_that_their_manual_defines) {
  if (!has_isa("amx")) GTEST_SKIP() << "this machine has no amx";
  constexpr uint32_t kRows = 37;
  const auto backend = backend_of("amx");
  for (const auto [n, k] : odd_shapes(ElementType::kBF16)) {
    const FileMatrix w = random_matrix(ElementType::kBF16, n, k, n);
    std::vector<float> x = random_floats(size_t{kRows} * k, k);
    const std::vector<float> got = product(*backend, x, kRows, *pack(*backend, {w}));
    for (float& value : x) value = bf16_to_f32(f32_to_bf16(value));
    for (size_t i = 0; i < got.size(); ++i) {
      const float* row = x.data() + i / n * k;
      const float* column = w.values.data() + i % n * k;
      float want = 0;
      for (uint32_t begin = 0; begin < k; begin += 32) {
        float even = 0, odd = 0;
        for (uint32_t j = begin; j < std::min(begin + 32, k); ++j) {
          float& sum = j % 2 == 0 ? even : odd;
          sum = std::fma(row[j], column[j], sum);
        }
        want += even + odd;
      }
      ASSERT_EQ(got[i], want) << n << "x" << k << " at " << i;
    }
  }
}

TEST(Matmul, a_row_alone_has_the_bits_it_has_in_any_batch) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    for (const ElementType type : weight_types()) {
      const uint32_t k = whole_blocks(type, 1571);
      const auto w = pack(*backend, {random_matrix(type, 100, k, 7)});
      const std::vector<float> x = random_floats(size_t{64} * k, 8);
      const std::vector<float> all = product(*backend, x, 64, *w);
      for (uint32_t m = 0; m < 64; ++m) {
        const std::vector<float> row(x.begin() + m * k, x.begin() + (m + 1) * k);
        const std::vector<float> alone = product(*backend, row, 1, *w);
        ASSERT_TRUE(same_bytes(alone, {all.begin() + m * 100, all.begin() + (m + 1) * 100}))
            << isa << " " << name_of(type) << " row " << m;
      }
      for (const uint32_t m : kRowCounts) {
        const std::vector<float> some = product(*backend, {x.begin(), x.begin() + m * k}, m, *w);
        ASSERT_TRUE(same_bytes(some, {all.begin(), all.begin() + m * 100}))
            << isa << " " << name_of(type) << " " << m << " rows";
      }
    }
  }
}

TEST(Matmul, more_rows_than_fit_the_cache_at_once_change_no_bits) {
  const auto backend = backend_of("");
  for (const ElementType type : weight_types()) {
    const uint32_t k = 4096;
    const auto w = pack(*backend, {random_matrix(type, 40, k, 7)});
    const std::vector<float> x = random_floats(size_t{600} * k, 8);
    const std::vector<float> all = product(*backend, x, 600, *w);
    for (const uint32_t m : {0u, 191u, 192u, 401u, 599u}) {
      const std::vector<float> row(x.begin() + m * k, x.begin() + (m + 1) * k);
      ASSERT_TRUE(same_bytes(product(*backend, row, 1, *w),
                             {all.begin() + m * 40, all.begin() + (m + 1) * 40}))
          << name_of(type) << " row " << m;
    }
  }
}

TEST(Matmul, the_number_of_threads_changes_no_bits) {
  const auto one = backend_of("", 1);
  for (const uint32_t n_threads : {2u, 3u, 7u}) {
    const auto many = backend_of("", n_threads);
    for (const ElementType type : weight_types()) {
      const uint32_t k = whole_blocks(type, 544);
      const FileMatrix w = random_matrix(type, 517, k, 1);
      const std::vector<float> x = random_floats(size_t{29} * k, 2);
      ASSERT_TRUE(same_bytes(product(*one, x, 29, *pack(*one, {w})),
                             product(*many, x, 29, *pack(*many, {w}))))
          << name_of(type) << " on " << n_threads;
    }
  }
}

TEST(Matmul, stacked_parts_of_different_types_give_what_each_gives_alone) {
  const uint32_t k = 256, m = 9;
  const std::vector<float> x = random_floats(size_t{m} * k, 3);
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    const FileMatrix parts[] = {
        random_matrix(ElementType::kQ4_0, 33, k, 4), random_matrix(ElementType::kF32, 5, k, 5),
        random_matrix(ElementType::kQ8_0, 70, k, 6), random_matrix(ElementType::kBF16, 16, k, 7),
        random_matrix(ElementType::kQ4_K, 33, k, 8), random_matrix(ElementType::kQ6_K, 31, k, 9),
        random_matrix(ElementType::kQ2_K, 20, k, 8), random_matrix(ElementType::kQ5_0, 12, k, 9)};
    const auto stacked = pack(
        *backend, {parts[0], parts[1], parts[2], parts[3], parts[4], parts[5], parts[6], parts[7]});
    EXPECT_EQ(stacked->n_rows(), 220u);
    const std::vector<float> all = product(*backend, x, m, *stacked);
    uint32_t first = 0;
    for (const FileMatrix& part : parts) {
      const std::vector<float> alone = product(*backend, x, m, *pack(*backend, {part}));
      for (uint32_t row = 0; row < m; ++row) {
        for (uint32_t n = 0; n < part.n_rows; ++n) {
          ASSERT_EQ(alone[row * part.n_rows + n], all[row * 220 + first + n])
              << isa << " " << name_of(part.type);
        }
      }
      first += part.n_rows;
    }
  }
}

TEST(Matmul, adding_to_the_residual_adds_the_finished_sum_once) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    for (const ElementType type : weight_types()) {
      const uint32_t k = whole_blocks(type, 1056);
      const auto w = pack(*backend, {random_matrix(type, 39, k, 9)});
      for (const uint32_t m : {1u, 17u}) {
        OwnedRows x(backend->memory(), m, k, random_floats(size_t{m} * k, 10));
        const std::vector<float> residual = random_floats(size_t{m} * 39, 11);
        OwnedRows out(backend->memory(), m, 39, residual);
        backend->matmul_add(x.rows, *w, out.rows);
        std::vector<float> want = product(*backend, x.values(), m, *w);
        for (size_t i = 0; i < want.size(); ++i) want[i] = residual[i] + want[i];
        ASSERT_TRUE(same_bytes(want, out.values())) << isa << " " << name_of(type);
      }
    }
  }
}

TEST(Matmul, rows_with_gaps_between_them_are_read_and_written_where_they_lie) {
  const auto backend = backend_of("");
  const auto w = pack(*backend, {random_matrix(ElementType::kQ8_0, 20, 64, 9)});
  OwnedRows x(backend->memory(), 4, 100, random_floats(400, 1));
  OwnedRows out(backend->memory(), 4, 50, std::vector<float>(200, 42.0f));
  backend->matmul(x.rows.columns(10, 64), *w, out.rows.columns(30, 20));
  for (uint32_t row = 0; row < 4; ++row) {
    const float* at = x.rows.data + row * 100 + 10;
    const std::vector<float> alone = product(*backend, {at, at + 64}, 1, *w);
    for (uint32_t n = 0; n < 50; ++n) {
      EXPECT_EQ(out.rows.data[row * 50 + n], n < 30 ? 42.0f : alone[n - 30]);
    }
  }
}

TEST(Matmul, the_lowest_quant_of_8_bits_is_multiplied_exactly) {
  FileMatrix w = matrix_of(ElementType::kQ8_0, 16, 32, std::vector<float>(512, 1.0f));
  for (size_t row = 0; row < 16; ++row) {
    BlockQ8_0 block{f32_to_f16(1.0f), {}};
    for (int8_t& quant : block.quants) quant = -128;
    std::memcpy(w.bytes.data() + row * sizeof(block), &block, sizeof(block));
  }
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    const auto packed = pack(*backend, {w});
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> x(32, sign * 127.0f);
      EXPECT_EQ(product(*backend, x, 1, *packed)[3], -sign * 32 * 127 * 128) << isa;
    }
  }
}

TEST(Matmul, rows_of_zeros_give_zeros) {
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    for (const ElementType type : weight_types()) {
      const uint32_t k = whole_blocks(type, 64);
      const auto w = pack(*backend, {random_matrix(type, 20, k, 9)});
      for (const float sum : product(*backend, std::vector<float>(2 * k), 2, *w)) {
        EXPECT_EQ(sum, 0);
      }
    }
  }
}

TEST(Matmul, rows_of_extreme_values_do_not_affect_other_rows) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto scalar = backend_of("scalar");
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    for (const ElementType type : weight_types()) {
      if (!backend->arithmetic(type).empty()) continue;
      const uint32_t k = whole_blocks(type, 64);
      const FileMatrix file = random_matrix(type, 20, k, 9);
      const auto w = pack(*backend, {file});
      const auto w_scalar = pack(*scalar, {file});
      const std::vector<float> good = random_floats(k, 5);
      for (const float bad : {kInf, -kInf, kNan, 3e38f, 1e-45f, 1e-38f}) {
        std::vector<float> x = good;
        x.insert(x.end(), good.begin(), good.end());
        x[k + 7] = bad;
        for (size_t i = k + 32; i < k + 64; ++i) x[i] = bad;
        const std::vector<float> got = product(*backend, x, 2, *w);
        const std::vector<float> alone = product(*scalar, good, 1, *w_scalar);
        EXPECT_TRUE(same_bytes(alone, {got.begin(), got.begin() + 20})) << isa << " " << bad;
        const std::vector<float> again = product(*backend, x, 2, *w);
        EXPECT_TRUE(same_bytes(got, again)) << isa << " " << bad;
      }
    }
  }
}

TEST(Matmul, an_embedded_row_has_the_bits_that_the_file_states) {
  const auto backend = backend_of("");
  for (const ElementType type : weight_types()) {
    const uint32_t k = whole_blocks(type, 97);
    const FileMatrix first = random_matrix(type, 37, k, 1);
    const FileMatrix second = random_matrix(type, 19, k, 2);
    const auto table = pack(*backend, {first, second});
    const std::vector<TokenId> tokens = {0, 15, 16, 36, 37, 55, 15};
    OwnedRows out(backend->memory(), tokens.size(), k);
    backend->embed(*table, tokens, out.rows);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const FileMatrix& from = tokens[i] < 37 ? first : second;
      const float* want = from.values.data() + tokens[i] % 37 * k;
      EXPECT_EQ(std::memcmp(out.rows.data + i * k, want, k * sizeof(float)), 0)
          << name_of(type) << " token " << tokens[i];
    }
  }
}

TEST(Matmul, weights_of_an_unaligned_file_are_packed_like_any_other) {
  const auto backend = backend_of("");
  for (const ElementType type : weight_types()) {
    const uint32_t k = whole_blocks(type, 64);
    const FileMatrix w = random_matrix(type, 20, k, 9);
    std::vector<std::byte> shifted(w.bytes.size() + 1);
    std::copy(w.bytes.begin(), w.bytes.end(), shifted.begin() + 1);
    const TensorView view{type, 20, k, std::span(shifted).subspan(1)};
    const std::vector<float> x = random_floats(k, 5);
    const auto packed = backend->pack_views({&view, 1});
    ASSERT_TRUE(packed);
    EXPECT_TRUE(same_bytes(product(*backend, x, 1, *pack(*backend, {w})),
                           product(*backend, x, 1, **packed)));
  }
}

TEST(Matmul, a_large_matrix_is_read_a_few_megabytes_at_a_time) {
  constexpr uint32_t kRows = 3000, kColumns = 8192;  // 98 MB
  const auto backend = backend_of("");
  std::vector<float> values(size_t{kRows} * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const TensorView view{ElementType::kF32, kRows, kColumns, std::as_bytes(std::span(values))};
  uint64_t n_read = 0;  // rows
  const auto packed =
      backend->pack({&view, 1}, [&](size_t, uint64_t first, uint64_t n) -> Result<TensorView> {
        EXPECT_EQ(first, n_read);
        n_read += n;
        EXPECT_LE(n * view.row_bytes(), size_t{16} << 20);
        return rows_of(view, first, n);
      });
  ASSERT_TRUE(packed);
  EXPECT_EQ(n_read, kRows);
  EXPECT_EQ((*packed)->source_digest(), digest_of(view));
  std::vector<TokenId> tokens(kRows);
  std::iota(tokens.begin(), tokens.end(), 0);
  OwnedRows out(backend->memory(), kRows, kColumns);
  backend->embed(**packed, tokens, out.rows);
  EXPECT_TRUE(same_bytes(out.values(), values));
}

TEST(Matmul, what_a_reader_says_is_what_packing_says) {
  const auto backend = backend_of("");
  const FileMatrix w = random_matrix(ElementType::kQ8_0, 40, 64, 1);
  const TensorView views[] = {w.view(), w.view()};
  const auto packed =
      backend->pack(views, [&](size_t matrix, uint64_t first, uint64_t n) -> Result<TensorView> {
        if (matrix == 0) return rows_of(views[0], first, n);
        return fail(ErrorCode::kCorrupt, "the file was cut");
      });
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().message, "the file was cut");
}

TEST(Matmul, types_without_kernels_are_refused_by_name) {
  const auto backend = backend_of("");
  EXPECT_FALSE(backend->can_compute(ElementType::kQ8_K));
  const TensorView view{ElementType::kQ8_K, 0, 256, {}};
  const auto packed = backend->pack_views({&view, 1});
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(packed.error().message.find("q8_k"), std::string::npos);
}

}  // namespace
}  // namespace kvik
