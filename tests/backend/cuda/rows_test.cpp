#include <cmath>
#include <limits>

#include "backend/cuda/both_backends.h"

namespace kvik {
namespace {

using testing::BothBackends;
using testing::placed;
using testing::PlacedRows;
using testing::random_floats;

constexpr uint32_t kColumns[] = {1, 15, 16, 17, 31, 33, 100, 257, 1023, 2051};

std::vector<float> random_rows(uint32_t n_rows, uint32_t n_cols, uint32_t seed) {
  return random_floats(size_t{n_rows} * n_cols, seed);
}

// Returns values at which exp and tanh switch between formulas.
std::vector<float> extreme_rows(uint32_t n_rows, uint32_t n_cols) {
  constexpr float kValues[] = {0.0f,  -0.0f,  1e-30f, -1e-6f, 3.0f,  -7.5f,  20.5f,   -20.5f,
                               87.0f, -87.4f, 88.4f,  -90.0f, 1e20f, -1e20f, 0.3333f, 5e-39f};
  std::vector<float> values = random_rows(n_rows, n_cols, 9);
  for (size_t i = 0; i < values.size(); i += 2) values[i] = kValues[i / 2 % std::size(kValues)];
  return values;
}

TEST(CudaRows, norms_of_rows_and_of_heads_have_the_cpus_bits) {
  BothBackends both;
  for (const uint32_t n : kColumns) {
    for (const uint32_t n_heads : {1u, 3u}) {
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        PlacedRows x(backend, 3, n * n_heads, random_rows(3, n * n_heads, 1));
        PlacedRows out(backend, 3, n * n_heads);
        const Buffer weight = placed(backend, random_floats(n, 2));
        backend.rms_norm(x.rows, weight.floats(), n, 1e-5f, out.rows);
        backend.rms_norm(x.rows, weight.floats(), n, 1e-5f, x.rows);
        EXPECT_EQ(x.values(), out.values());
        return out.values();
      })) << n
          << " x " << n_heads;
    }
  }
}

TEST(CudaRows, additions_and_scales_have_the_cpus_bits) {
  BothBackends both;
  for (const uint32_t n : kColumns) {
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      PlacedRows x(backend, 3, n, random_rows(3, n, 1));
      PlacedRows y(backend, 3, n, random_rows(3, n, 2));
      const Buffer bias = placed(backend, random_floats(n, 3));
      const std::vector<float> factors = random_floats(3, 4);
      backend.add(x.rows, y.rows);
      backend.add_bias(x.rows, bias.floats());
      backend.scale(x.rows, 0.3f);
      backend.scale_rows(x.rows, factors);
      return x.values();
    })) << n;
  }
}

TEST(CudaRows, columns_of_some_rows_are_scaled) {
  BothBackends both;
  for (const uint32_t n : kColumns) {
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      PlacedRows x(backend, 7, n, random_rows(7, n, 1));
      const Buffer factors = placed(backend, random_floats(n, 3));
      backend.scale_columns(x.rows, std::vector<uint32_t>{1, 2, 5}, factors.floats());
      return x.values();
    })) << n;
  }
}

TEST(CudaRows, the_bias_of_each_rows_matrix_is_added) {
  BothBackends both;
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows x(backend, 7, 33, random_rows(7, 33, 1));
    const Buffer biases = placed(backend, random_rows(5, 33, 2));
    const RowGroup groups[] = {{4, 0, 2}, {1, 2, 1}, {2, 3, 4}};
    backend.add_grouped_bias(x.rows, biases.floats(),
                             {.rows = {}, .groups = groups, .n_matrices = 5});
    return x.values();
  }));
}

TEST(CudaRows, soft_caps_and_activations_have_the_cpus_bits_also_where_they_saturate) {
  BothBackends both;
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows x(backend, 3, 400, extreme_rows(3, 400));
    backend.soft_cap(x.rows, 1.5f);
    return x.values();
  }));
  for (const Activation activation :
       {Activation::kSilu, Activation::kGeluTanh, Activation::kClampedSwish, Activation::kSigmoid,
        Activation::kNone, Activation::kReluSquared, Activation::kGelu, Activation::kGatedGelu}) {
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      PlacedRows gate(backend, 3, 400, extreme_rows(3, 400));
      PlacedRows up(backend, 3, 400, random_rows(3, 400, 3));
      PlacedRows out(backend, 3, 400);
      backend.gated_activation(activation, gate.rows, up.rows, out.rows);
      backend.gated_activation(activation, gate.rows, up.rows, gate.rows);
      EXPECT_EQ(gate.values(), out.values());
      return out.values();
    })) << static_cast<int>(activation);
  }
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows gate(backend, 3, 400, extreme_rows(3, 400));
    PlacedRows up(backend, 3, 400, random_rows(3, 400, 3));
    backend.limited_silu(gate.rows, up.rows, 0.5f, gate.rows);
    return gate.values();
  }));
}

// Ties go to the first; infinities and NaN are ignored.
TEST(CudaRows, the_largest_number_of_a_row_is_the_cpus) {
  BothBackends both;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const uint32_t n : {1u, 5u, 256u, 257u, 1000u}) {
    EXPECT_TRUE(both.agree([&](Backend& backend) {
      std::vector<float> values = random_rows(5, n, 1);
      for (uint32_t i = 0; i < n; ++i) {
        values[n + i] = i % 7 == 3 ? 2.0f : 1.0f;
        values[2 * n + i] = i % 2 == 0 ? std::nanf("") : kInfinity;
        values[3 * n + i] = i + 1 == n ? -1e30f : -kInfinity;
      }
      PlacedRows x(backend, 5, n, values);
      std::vector<std::optional<uint32_t>> found(5, 77);
      backend.largest(x.rows, found);
      EXPECT_EQ(found[1], n > 3 ? 3u : 0u);
      EXPECT_FALSE(found[2].has_value());
      EXPECT_EQ(found[3], n - 1);
      std::vector<uint32_t> columns;
      for (const auto& column : found) columns.push_back(column.value_or(UINT32_MAX));
      return columns;
    })) << n;
  }
}

TEST(CudaRows, heads_turn_as_on_the_cpu_also_where_the_last_one_ends_early) {
  BothBackends both;
  for (const RopePairing pairing : {RopePairing::kHalves, RopePairing::kInterleaved}) {
    for (const uint32_t n_pairs : {1u, 7u, 8u, 16u, 32u, 40u}) {
      const uint32_t head_dim = 2 * n_pairs + 6;
      const uint32_t n_cols = 3 * head_dim - 5;
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        PlacedRows x(backend, 4, n_cols, random_rows(4, n_cols, 1));
        const Buffer cos = placed(backend, random_rows(4, n_pairs, 2));
        const Buffer sin = placed(backend, random_rows(4, n_pairs, 3));
        backend.rope(x.rows, head_dim, pairing, {cos.floats(), sin.floats(), n_pairs});
        return x.values();
      })) << n_pairs;
    }
  }
}

TEST(CudaRows, rows_and_heads_are_copied_where_they_belong) {
  BothBackends both;
  const std::vector<uint32_t> rows = {4, 0, 0, 3, 2, 4, 1};
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows x(backend, 5, 70, random_rows(5, 70, 1));
    PlacedRows out(backend, 7, 70);
    backend.gather(x.rows, rows, out.rows);
    return out.values();
  }));
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows x(backend, 5, 70, random_rows(5, 70, 1));
    PlacedRows out(backend, 5, 91);
    backend.copy_heads({x.rows, 4, 17, 2, 9}, {out.rows, 4, 20, 11, 9});
    return out.values();
  }));
}

TEST(CudaRows, weighted_rows_are_added_in_their_order) {
  BothBackends both;
  const std::vector<uint32_t> rows = {4, 0, 3, 3, 2, 4, 1, 0, 2};
  const std::vector<float> weights = random_floats(rows.size(), 5);
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows x(backend, 3, 300, random_rows(3, 300, 1));
    PlacedRows y(backend, 5, 300, random_rows(5, 300, 2));
    backend.add_weighted(x.rows, y.rows, {rows, weights, 3});
    return x.values();
  }));
}

// Lists that later layers use again are not copied again.
TEST(CudaRows, the_same_list_travels_to_the_device_once) {
  BothBackends both;
  Backend& backend = both.cuda();
  PlacedRows x(backend, 5, 70, random_rows(5, 70, 1));
  PlacedRows out(backend, 3, 70);
  const uint64_t before = both.device().counters().bytes_in;
  const auto copies = [&] { return both.device().counters().n_copies_in; };
  const uint64_t n_copies = copies();
  const std::vector<uint32_t> rows = {4, 0, 1};
  for (int layer = 0; layer < 3; ++layer) backend.gather(x.rows, rows, out.rows);
  EXPECT_EQ(copies() - n_copies, 1u);
  EXPECT_EQ(both.device().counters().bytes_in - before, 16u);
  const std::vector<uint32_t> others = {4, 0, 2};
  backend.gather(x.rows, others, out.rows);
  EXPECT_EQ(copies() - n_copies, 2u);
  EXPECT_EQ(both.device().counters().bytes_in - before, 32u);
}

}  // namespace
}  // namespace kvik
