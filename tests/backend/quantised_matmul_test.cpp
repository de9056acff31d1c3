#include <gtest/gtest.h>

#include "backend/products.h"
#include "backend/random_matrix.h"
#include "tensor/e4m3.h"

namespace kvik {
namespace {

using namespace testing;

// Where a block has its f16 numbers.
std::vector<size_t> places_of_halves(ElementType type) {
  switch (type) {
    case ElementType::kQ4_1:
    case ElementType::kQ5_1:
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
      return {0, 2};
    case ElementType::kQ2_K:
      return {80, 82};
    case ElementType::kQ3_K:
      return {108};
    case ElementType::kQ6_K:
      return {208};
    default:
      return {0};
  }
}

// A scale that is one, and bytes that are all numbers.
void make_numbers(std::byte* block, size_t block_bytes, std::mt19937& generator) {
  const float scale = std::ldexp(1.0f + static_cast<float>(generator() % 1000) / 1000, -9);
  std::memcpy(block, &scale, sizeof(scale));
  for (std::byte& b : std::span(block, block_bytes).subspan(sizeof(scale))) {
    if (!is_e4m3_number(std::to_integer<uint8_t>(b))) b ^= std::byte{1};
  }
}

// Bytes that take scales, minima, zeros and levels to all the values they can have.
FileMatrix of_random_bytes(ElementType type, uint32_t n_rows, uint32_t n_cols) {
  FileMatrix m{type, n_rows, n_cols, {}, std::vector<float>(size_t{n_rows} * n_cols)};
  const size_t row_bytes = m.view().row_bytes();
  const size_t block_bytes = traits(type).block_bytes;
  std::mt19937 generator(4);
  m.bytes.resize(n_rows * row_bytes);
  for (std::byte& b : m.bytes) b = static_cast<std::byte>(generator());
  for (size_t at = 0; at < m.bytes.size(); at += block_bytes) {
    std::byte* block = m.bytes.data() + at;
    if (type == ElementType::kFp8 || type == ElementType::kFp8G32) {
      make_numbers(block, block_bytes, generator);
      continue;
    }
    if (type == ElementType::kNvFp4) {  // four scales without a sign, that are numbers
      for (std::byte& b : std::span(block, 4)) b &= std::byte{0x77};
      continue;
    }
    for (const size_t half : places_of_halves(type)) {
      block[half + 1] &= std::byte{0xbf};  // no infinities: f16 below 2
    }
    // Scales of eight bits reach past what f32 holds, and 255 is no number.
    if (type == ElementType::kMXFP4) block[0] = (block[0] & std::byte{63}) | std::byte{64};
    if (traits(type).gguf_id != kNoGgufId) continue;  // groups of integers have a zero
    const bool has_eight_bits = type == ElementType::kInt8G32 || type == ElementType::kInt8G128;
    const auto zero = static_cast<uint16_t>(generator() % (has_eight_bits ? 257 : 17));
    std::memcpy(block + 2, &zero, sizeof(zero));
  }
  for (size_t row = 0; row < n_rows; ++row) {
    dequantize_row(type, m.bytes.data() + row * row_bytes,
                   {m.values.data() + row * n_cols, n_cols});
  }
  return m;
}

TEST(QuantisedMatmul, any_bytes_of_quantised_types_are_multiplied_as_the_file_states) {
  const auto scalar = backend_of("scalar");
  for (const ElementType type : kAllTypes) {
    if (traits(type).block_elements == 1) continue;
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

TEST(QuantisedMatmul, an_embedded_row_of_any_bytes_has_the_bits_that_the_file_states) {
  const auto backend = backend_of("");
  for (const ElementType type : kAllTypes) {
    if (traits(type).block_elements == 1) continue;
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

TEST(QuantisedMatmul, a_matrix_of_nvfp4_is_times_its_own_scale) {
  const uint32_t k = 192, n = 40;
  for (const std::string_view isa : cpu_isa_names()) {
    const auto backend = backend_of(isa);
    const FileMatrix a = random_matrix(ElementType::kNvFp4, n, k, 1);
    const FileMatrix b = random_matrix(ElementType::kQ4_0, n, k, 2);
    TensorView views[] = {a.view(), a.view(), b.view()};
    views[0].scale = 0.375f;  // times a float, few bits: exact
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

// x[gather[j]] in place of x[j]
std::vector<float> gathered(const std::vector<float>& x, std::span<const uint32_t> gather) {
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i / gather.size() * gather.size() + gather[i % gather.size()]];
  }
  return out;
}

TEST(QuantisedMatmul, weights_with_an_order_of_their_own_meet_the_activations_in_that_order) {
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
