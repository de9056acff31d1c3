#include <gtest/gtest.h>

#include <limits>

#include "backend/products.h"
#include "backend/random_matrix.h"

namespace kvik {
namespace {

using namespace testing;

FileMatrix of_random_bytes(ElementType type, uint32_t n_rows, uint32_t n_cols) {
  FileMatrix m{type, n_rows, n_cols, {}, std::vector<float>(size_t{n_rows} * n_cols)};
  const size_t row_bytes = m.view().row_bytes();
  std::mt19937 generator(4);
  m.bytes.resize(n_rows * row_bytes);
  for (size_t row = 0; row < n_rows; ++row) {
    make_random_row(type, std::span(m.bytes).subspan(row * row_bytes, row_bytes), generator);
    dequantize_row(type, m.bytes.data() + row * row_bytes,
                   {m.values.data() + row * n_cols, n_cols});
  }
  return m;
}

TEST(QuantizedMatmul, any_bytes_of_quantized_types_are_multiplied_as_the_file_states) {
  const auto scalar = backend_of("scalar");
  for (const ElementType type : quantized_types()) {
    const FileMatrix w = of_random_bytes(type, 40, 512);
    const std::vector<float> x = random_floats(size_t{20} * 512, 3);
    const std::vector<float> got = product(*scalar, x, 20, *pack(*scalar, {w}));
    const std::vector<double> want = plain_product(x, 20, w);
    double largest = 0;
    for (const double value : want) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], want[i], 1e-5 * largest) << name_of(type) << " " << i;
    }
    for (const std::string_view isa : cpu_isa_names()) {
      const auto backend = backend_of(isa);
      for (const uint32_t m : {1u, 5u, 11u, 20u}) {
        const std::vector<float> some(got.begin(), got.begin() + m * 40);
        EXPECT_TRUE(same_bytes(
            some, product(*backend, {x.begin(), x.begin() + m * 512}, m, *pack(*backend, {w}))))
            << isa << " " << name_of(type) << " " << m;
      }
    }
  }
}

// Returns the index of the matrix with which packing ended, or the number of matrices.
size_t packed_until(Backend& backend, const std::vector<FileMatrix>& matrices) {
  std::vector<TensorView> views;
  for (const FileMatrix& matrix : matrices) views.push_back(matrix.view());
  size_t last = 0;
  const auto packed = backend.pack(views, [&](size_t matrix, uint64_t first, uint64_t n) {
    last = matrix;
    return rows_of(views[matrix], first, n);
  });
  if (packed) return matrices.size();
  EXPECT_EQ(packed.error().code, ErrorCode::kCorrupt) << packed.error().message;
  return last;
}

TEST(QuantizedMatmul, a_matrix_with_a_scale_or_value_that_is_not_finite_is_refused) {
  const auto backend = backend_of("");
  for (const ElementType type : weight_types()) {
    const BlockFormat* format = block_format(type);
    if (format && format->packed.n_halves == 0) continue;  // scales of eight bits
    const FileMatrix good = random_matrix(type, 37, 512, 1);
    EXPECT_EQ(packed_until(*backend, {good, good}), 2u) << name_of(type);
    const size_t block_bytes = traits(type).block_bytes;
    FileMatrix bad = good;
    const auto last = std::span(bad.bytes).last(block_bytes);
    BlockNumbers numbers{};
    if (format && format->row_scale != RowScale::kNone) {
      set_row_scale(*format, std::numeric_limits<float>::quiet_NaN(), numbers);
      write_row_scale(*format, numbers, std::span(bad.bytes).last(good.view().row_bytes()).data());
    } else if (format) {
      read_block(*format, last.data(), numbers);
      numbers.scale = 0x7e00;  // NaN
      format->block.write(numbers, last.data());
    } else {
      std::ranges::fill(last, std::byte{0xff});  // NaN in all float types
    }
    EXPECT_EQ(packed_until(*backend, {good, bad, bad}), 1u) << name_of(type);
    if (!format || !format->has_minimum) continue;
    bad = good;
    const auto first = std::span(bad.bytes).first(block_bytes);
    read_block(*format, first.data(), numbers);
    numbers.minimum = 0xfc00;  // minus infinity
    format->block.write(numbers, first.data());
    EXPECT_EQ(packed_until(*backend, {bad, good}), 0u) << name_of(type);
  }
}

TEST(QuantizedMatmul, an_embedded_row_of_any_bytes_has_the_bits_that_the_file_states) {
  const auto backend = backend_of("");
  for (const ElementType type : quantized_types()) {
    const FileMatrix w = of_random_bytes(type, 37, 512);
    const auto table = pack(*backend, {w});
    const std::vector<TokenId> tokens = {36, 0, 17};
    OwnedRows out(backend->memory(), tokens.size(), 512);
    backend->embed(*table, tokens, out.rows);
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(std::memcmp(out.rows.data + i * 512, w.values.data() + tokens[i] * 512, 2048), 0)
          << name_of(type) << " token " << tokens[i];
    }
  }
}

TEST(QuantizedMatmul, a_matrix_of_nvfp4_is_times_its_own_scale) {
  const uint32_t k = 192, n = 40;
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    const FileMatrix a = random_matrix(ElementType::kNvFp4, n, k, 1);
    const FileMatrix b = random_matrix(ElementType::kQ4_0, n, k, 2);
    TensorView views[] = {a.view(), a.view(), b.view()};
    views[0].scale = 0.375f;  // a float with few bits, so that products are exact
    const auto packed = backend->pack_views(views);
    ASSERT_TRUE(packed);
    EXPECT_NE((*packed)->source_digest(), pack(*backend, {a, a, b})->source_digest());
    for (const uint32_t m : {1u, 9u, 40u}) {
      const std::vector<float> x = random_floats(size_t{m} * k, m);
      const std::vector<float> got = product(*backend, x, m, **packed);
      const std::vector<float> alone = product(*backend, x, m, *pack(*backend, {a}));
      const std::vector<float> beside = product(*backend, x, m, *pack(*backend, {b}));
      for (uint32_t row = 0; row < m; ++row) {
        for (uint32_t i = 0; i < n; ++i) {
          const float* of_row = got.data() + row * 3 * n;
          const float want = 0.375f * alone[row * n + i];
          ASSERT_NEAR(of_row[i], want, 1e-6f * (1 + std::fabs(want))) << isa << " " << m;
          ASSERT_EQ(of_row[n + i], alone[row * n + i]) << isa << " " << m;
          ASSERT_EQ(of_row[2 * n + i], beside[row * n + i]) << isa << " " << m;
        }
      }
    }
    const std::vector<TokenId> tokens = {17, n + 17};
    OwnedRows out(backend->memory(), 2, k);
    backend->embed(**packed, tokens, out.rows);
    for (uint32_t i = 0; i < k; ++i) {
      EXPECT_EQ(out.rows.data[i], 0.375f * a.values[17 * k + i]);
      EXPECT_EQ(out.rows.data[k + i], a.values[17 * k + i]);
    }
  }
}

// Returns x[gather[j]] in place of x[j].
std::vector<float> gathered(const std::vector<float>& x, std::span<const uint32_t> gather) {
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i / gather.size() * gather.size() + gather[i % gather.size()]];
  }
  return out;
}

TEST(QuantizedMatmul, weights_with_an_order_of_their_own_meet_the_activations_in_that_order) {
  const uint32_t k = 640, n_rows = 40;
  std::vector<uint32_t> order(k), other(k);
  for (uint32_t i = 0; i < k; ++i) order[i] = (i * 67 + 5) % k;
  for (uint32_t i = 0; i < k; ++i) other[i] = k - 1 - i;
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    for (const ElementType type :
         {ElementType::kInt4G128, ElementType::kInt8G32, ElementType::kQ4_1}) {
      const FileMatrix a = random_matrix(type, n_rows, k, 1);
      const FileMatrix b = random_matrix(type, n_rows, k, 2);
      const FileMatrix c = random_matrix(ElementType::kF32, n_rows, k, 3);
      TensorView views[] = {a.view(), b.view(), b.view(), c.view()};
      views[0].gather = order;
      views[1].gather = order;
      views[2].gather = other;
      const auto packed = backend->pack_views(views);
      ASSERT_TRUE(packed);
      for (const uint32_t m : {1u, 9u, 40u}) {
        const std::vector<float> x = random_floats(size_t{m} * k, m);
        const std::vector<float> all = product(*backend, x, m, **packed);
        const std::vector<float> in_order = gathered(x, order);
        const std::vector<float> want[] = {
            product(*backend, in_order, m, *pack(*backend, {a})),
            product(*backend, in_order, m, *pack(*backend, {b})),
            product(*backend, gathered(x, other), m, *pack(*backend, {b})),
            product(*backend, x, m, *pack(*backend, {c}))};
        for (uint32_t row = 0; row < m; ++row) {
          for (uint32_t n = 0; n < 4 * n_rows; ++n) {
            ASSERT_EQ(all[row * 4 * n_rows + n], want[n / n_rows][row * n_rows + n % n_rows])
                << isa << " " << name_of(type) << " " << m << " rows, column " << n;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvik
