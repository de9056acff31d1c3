#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/random_matrix.h"

namespace kvik {
namespace {

using testing::OwnedRows;
using testing::random_floats;
using testing::same_bytes;

constexpr ElementType kTypes[] = {ElementType::kF32, ElementType::kF16, ElementType::kBF16};

struct Change {
  uint32_t n_rows, n_cols, rank;
  ElementType type = ElementType::kF32;
  float scale = 1.25f;
  std::vector<float> a, b;

  Change(uint32_t rows, uint32_t cols, uint32_t of_rank, uint32_t seed,
         ElementType of_type = ElementType::kF32)
      : n_rows(rows), n_cols(cols), rank(of_rank), type(of_type) {
    a = held(random_floats(size_t{rank} * cols, seed));
    b = held(random_floats(size_t{rows} * rank, seed + 1));
  }

  // Returns the values after rounding to the type.
  std::vector<float> held(std::vector<float> values) const {
    std::vector<std::byte> bytes(values.size() * 4);
    quantize_row(type, values, bytes.data());
    dequantize_row(type, bytes.data(), values);
    return values;
  }

  LowRankView view() const {
    return {.a = a,
            .b = b,
            .n_rows = n_rows,
            .n_cols = n_cols,
            .rank = rank,
            .scale = scale,
            .type = type};
  }
  std::shared_ptr<const LowRankMatrix> pack(Backend& backend) const {
    struct Packed {
      Buffer place;
      std::unique_ptr<LowRankMatrix> matrix;
    };
    const auto packed =
        std::make_shared<Packed>(backend.memory().allocate(backend.low_rank_bytes(view())));
    packed->matrix = backend.pack_low_rank(view(), packed->place.data());
    return {packed, packed->matrix.get()};
  }

  // Returns the change that the factors add to a row.
  std::vector<double> apply(const float* x) const {
    std::vector<double> out(n_rows);
    for (uint32_t r = 0; r < rank; ++r) {
      double h = 0;
      for (uint32_t k = 0; k < n_cols; ++k) h += double{x[k]} * a[size_t{r} * n_cols + k];
      for (uint32_t n = 0; n < n_rows; ++n) out[n] += scale * h * b[size_t{n} * rank + r];
    }
    return out;
  }
};

std::vector<uint32_t> first_rows(uint32_t n) {
  std::vector<uint32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

std::unique_ptr<Backend> backend_for(const std::string& isa, uint32_t n_threads) {
  auto backend = make_cpu_backend({.n_threads = n_threads, .isa = isa});
  EXPECT_TRUE(backend.has_value());
  return std::move(*backend);
}

// Returns `before` plus the change of n_rows rows of x.
std::vector<float> added(Backend& backend, const Change& change, const std::vector<float>& x,
                         const std::vector<float>& before, uint32_t n_rows) {
  OwnedRows in(backend.memory(), n_rows, change.n_cols, x);
  OwnedRows out(backend.memory(), n_rows, change.n_rows, before);
  const auto matrix = change.pack(backend);
  const auto rows = first_rows(n_rows);
  const LowRankTerm term{.matrix = matrix.get(), .x_rows = rows, .out_rows = rows};
  backend.add_low_rank(in.rows, {&term, 1}, out.rows);
  return out.values();
}

TEST(LowRank, adds_the_scaled_product_of_both_matrices) {
  for (const ElementType type : kTypes) {
    for (const auto& [n, k, rank] : {std::tuple{1u, 1u, 1u},
                                     {33u, 100u, 3u},
                                     {512u, 257u, 16u},
                                     {513u, 2048u, 17u},
                                     {16u, 600u, 256u}}) {
      const Change change(n, k, rank, 7, type);
      const uint32_t n_rows = 5;
      const auto x = random_floats(size_t{n_rows} * k, 3);
      const auto before = random_floats(size_t{n_rows} * n, 4);
      const auto backend = backend_for("", 1);
      const auto out = added(*backend, change, x, before, n_rows);
      for (uint32_t row = 0; row < n_rows; ++row) {
        const auto delta = change.apply(x.data() + size_t{row} * k);
        const double size = std::sqrt(static_cast<double>(k) * rank);
        for (uint32_t i = 0; i < n; ++i) {
          const size_t at = size_t{row} * n + i;
          ASSERT_NEAR(out[at], before[at] + delta[i], 2e-6 * size)
              << name_of(type) << " " << n << "x" << k << " rank " << rank;
        }
      }
    }
  }
}

TEST(LowRank, gives_the_same_bits_on_every_instruction_set_and_number_of_threads) {
  for (const ElementType type : kTypes) {
    for (const uint32_t n_rows : {1u, 2u, 7u, 8u, 9u, 70u}) {
      const Change change(530, 700, 20, 11, type);
      const auto x = random_floats(size_t{n_rows} * change.n_cols, 5);
      const auto before = random_floats(size_t{n_rows} * change.n_rows, 6);
      std::vector<float> expected;
      for (const std::string_view isa : cpu_isa_names()) {
        for (const uint32_t n_threads : {1u, 3u}) {
          const auto backend = backend_for(std::string(isa), n_threads);
          const auto out = added(*backend, change, x, before, n_rows);
          if (expected.empty()) expected = out;
          EXPECT_TRUE(same_bytes(out, expected))
              << isa << ", " << n_threads << " threads, " << n_rows << " rows";
        }
      }
    }
  }
}

TEST(LowRank, a_row_has_the_same_bits_alone_and_in_a_batch) {
  const auto backend = backend_for("", 2);
  const Change change(300, 1000, 8, 21, ElementType::kBF16);
  constexpr uint32_t kRows = 67;
  const auto x = random_floats(size_t{kRows} * change.n_cols, 8);
  const auto before = random_floats(size_t{kRows} * change.n_rows, 9);
  const auto together = added(*backend, change, x, before, kRows);
  for (uint32_t row = 0; row < kRows; ++row) {
    const auto begin = [&](const std::vector<float>& values, uint32_t n) {
      const auto first = values.begin() + static_cast<ptrdiff_t>(row) * n;
      return std::vector<float>(first, first + n);
    };
    const auto alone =
        added(*backend, change, begin(x, change.n_cols), begin(before, change.n_rows), 1);
    EXPECT_TRUE(same_bytes(alone, begin(together, change.n_rows))) << "row " << row;
  }
}

// Terms of several adapters have output rows in any order, other input rows, and columns at any
// offset.
TEST(LowRank, terms_find_their_own_rows_and_columns) {
  const auto backend = backend_for("", 2);
  const Change first(40, 64, 4, 31);
  const Change second(24, 64, 9, 41, ElementType::kF16);
  const auto a = first.pack(*backend);
  const auto b = second.pack(*backend);
  constexpr uint32_t kXCols = 80;
  constexpr uint32_t kOutCols = 70;
  const auto x = random_floats(6 * kXCols, 1);
  const auto before = random_floats(5 * kOutCols, 2);
  OwnedRows in(backend->memory(), 6, kXCols, x);
  OwnedRows out(backend->memory(), 5, kOutCols, before);
  const std::vector<uint32_t> x_of_a = {5, 0}, out_of_a = {1, 4}, x_of_b = {2, 3, 5},
                              out_of_b = {0, 4, 1};
  const LowRankTerm terms[] = {
      {.matrix = a.get(), .x_rows = x_of_a, .out_rows = out_of_a, .x_column = 0, .out_column = 3},
      {.matrix = b.get(),
       .x_rows = x_of_b,
       .out_rows = out_of_b,
       .x_column = 16,
       .out_column = 43}};
  backend->add_low_rank(in.rows, terms, out.rows);
  std::vector<double> expected(before.begin(), before.end());
  const auto expect = [&](const Change& change, uint32_t x_row, uint32_t out_row, uint32_t x_column,
                          uint32_t out_column) {
    const auto delta = change.apply(x.data() + x_row * kXCols + x_column);
    for (uint32_t i = 0; i < change.n_rows; ++i) {
      expected[out_row * kOutCols + out_column + i] += delta[i];
    }
  };
  for (const size_t i : {0u, 1u}) expect(first, x_of_a[i], out_of_a[i], 0, 3);
  for (const size_t i : {0u, 1u, 2u}) expect(second, x_of_b[i], out_of_b[i], 16, 43);
  const auto values = out.values();
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-4) << i;
  EXPECT_TRUE(same_bytes({values.begin() + 2 * kOutCols, values.begin() + 4 * kOutCols},
                         {before.begin() + 2 * kOutCols, before.begin() + 4 * kOutCols}))
      << "rows of no term";
}

TEST(LowRank, writes_all_of_its_place_and_nothing_else) {
  const auto backend = backend_for("", 1);
  for (const ElementType type : kTypes) {
    const Change change(37, 90, 5, 3, type);
    const size_t n_bytes = backend->low_rank_bytes(change.view());
    EXPECT_EQ(n_bytes % 64, 0u);
    std::vector<std::byte> bytes[2];
    for (const std::byte before : {std::byte{0}, std::byte{0xa5}}) {
      alignas(64) std::byte place[1 << 14];
      ASSERT_LE(n_bytes + 64, sizeof place);
      std::ranges::fill(place, before);
      backend->pack_low_rank(change.view(), place);
      bytes[before != std::byte{0}].assign(place, place + n_bytes);
      EXPECT_TRUE(std::all_of(place + n_bytes, std::end(place),
                              [&](std::byte byte) { return byte == before; }));
    }
    const size_t n_packed = (90 * 16 + 48 * 5) * traits(type).block_bytes;
    EXPECT_LT(n_bytes - n_packed, 64u);
    bytes[0].resize(n_packed);
    bytes[1].resize(n_packed);
    EXPECT_EQ(bytes[0], bytes[1]);
  }
}

}  // namespace
}  // namespace kvik
