#include "backend/cuda/both_backends.h"

namespace kvik {
namespace {

using testing::BothBackends;
using testing::placed;
using testing::PlacedRows;
using testing::random_floats;

std::vector<float> random_rows(uint32_t n_rows, uint32_t n_cols, uint32_t seed) {
  return random_floats(size_t{n_rows} * n_cols, seed);
}

std::vector<float> floats_of(Backend& backend, const Buffer& buffer) {
  std::vector<float> values(buffer.size() / sizeof(float));
  backend.memory().copy_out(std::as_writable_bytes(std::span(values)), buffer.data());
  return values;
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

TEST(CudaState, convolutions_match_the_cpu_and_keep_state_before_drafts) {
  BothBackends both;
  for (const uint32_t n_channels : {1u, 40u, 300u}) {
    for (const uint32_t kernel_size : {2u, 4u}) {
      for (const bool is_activated : {false, true}) {
        EXPECT_TRUE(both.agree([&](Backend& backend) {
          const Buffer conv_weights = placed(backend, random_rows(kernel_size, n_channels, 1));
          const Buffer bias = placed(backend, random_floats(n_channels, 2));
          const size_t per_run = size_t{kernel_size - 1} * n_channels;
          const Buffer states = placed(backend, random_floats(3 * per_run, 3));
          PlacedRows x(backend, 9, n_channels, random_rows(9, n_channels, 4));
          PlacedRows out(backend, 9, n_channels);
          const StateRun runs[] = {{states.floats(), 0, 1, 0},
                                   {states.floats() + per_run, 1, 5, 2},
                                   {states.floats() + 2 * per_run, 6, 3, 3}};
          backend.short_conv({conv_weights.floats(), is_activated ? bias.floats() : nullptr,
                              kernel_size, is_activated},
                             runs, x.rows, out.rows);
          std::vector<float> all = out.values();
          append(all, floats_of(backend, states));
          return all;
        })) << n_channels
            << " channels, " << kernel_size << " taps";
      }
    }
  }
}

TEST(CudaState, gates_and_steps_are_those_of_the_cpu) {
  BothBackends both;
  const std::vector<float> factors = random_floats(5, 1), biases = random_floats(5, 2);
  EXPECT_TRUE(both.agree([&](Backend& backend) {
    PlacedRows decay(backend, 7, 5, random_rows(7, 5, 3));
    PlacedRows rate(backend, 7, 5, random_rows(7, 5, 4));
    backend.state_gates(decay.rows, rate.rows, factors, biases);
    std::vector<float> all = decay.values();
    append(all, rate.values());
    backend.state_steps(rate.rows, decay.rows, factors, biases);
    append(all, decay.values());
    append(all, rate.values());
    backend.bounded_decays(rate.rows, decay.rows, {factors, biases, -5.0f});
    append(all, decay.values());
    append(all, rate.values());
    return all;
  }));
}

TEST(CudaState, recurrences_match_the_cpu_and_keep_state_before_drafts) {
  BothBackends both;
  const std::vector<float> skips = random_floats(4, 9);
  const auto agree = [&](const RecurrenceShape& shape, bool is_delta) {
    return both.agree([&](Backend& backend) {
      const uint32_t keys = shape.n_key_heads * shape.key_dim;
      const uint32_t values = shape.n_heads * shape.value_dim;
      const size_t per_run = size_t{values} * shape.key_dim;
      const Buffer states = placed(backend, random_floats(3 * per_run, 1));
      PlacedRows q(backend, 9, keys, random_rows(9, keys, 2));
      PlacedRows k(backend, 9, keys, random_rows(9, keys, 3));
      PlacedRows v(backend, 9, values, random_rows(9, values, 4));
      const uint32_t n_decays = shape.decays_keys ? 4 * shape.key_dim : 4;
      PlacedRows decay(backend, 9, n_decays, random_rows(9, n_decays, 5));
      PlacedRows rate(backend, 9, 4, random_rows(9, 4, 6));
      PlacedRows out(backend, 9, values);
      const StateRun runs[] = {{states.floats(), 0, 1, 0},
                               {states.floats() + per_run, 1, 5, 2},
                               {states.floats() + 2 * per_run, 6, 3, 3}};
      const RecurrenceRows in = {q.rows, k.rows, v.rows, decay.rows, rate.rows};
      if (is_delta) {
        backend.delta_rule(shape, runs, in, 1e-6f, out.rows);
      } else {
        backend.state_space(shape, runs, in, skips, out.rows);
      }
      std::vector<float> all = out.values();
      append(all, floats_of(backend, states));
      return all;
    });
  };
  for (const uint32_t key_dim : {16u, 48u, 128u}) {
    for (const uint32_t value_dim : {16u, 32u, 48u, 80u}) {
      for (const bool is_tiled : {false, true}) {
        const RecurrenceShape shape = {.n_heads = 4,
                                       .n_key_heads = 2,
                                       .key_dim = key_dim,
                                       .value_dim = value_dim,
                                       .is_tiled = is_tiled};
        EXPECT_TRUE(agree(shape, false)) << key_dim << " by " << value_dim;
        EXPECT_TRUE(agree(shape, true)) << key_dim << " by " << value_dim;
        RecurrenceShape by_key = shape;
        by_key.decays_keys = true;
        EXPECT_TRUE(agree(by_key, true)) << key_dim << " by " << value_dim;
      }
    }
  }
}

TEST(CudaState, the_scan_of_mamba_matches_the_cpu_and_keeps_state_before_drafts) {
  BothBackends both;
  for (const uint32_t n_channels : {16u, 80u, 144u}) {
    for (const uint32_t dim : {1u, 16u, 40u}) {
      EXPECT_TRUE(both.agree([&](Backend& backend) {
        const size_t per_run = size_t{n_channels} * dim;
        const Buffer states = placed(backend, random_floats(3 * per_run, 1));
        std::vector<float> factors = random_floats(per_run, 2);
        for (float& factor : factors) factor = -std::abs(factor);
        const Buffer decays = placed(backend, factors);
        const Buffer biases = placed(backend, random_floats(n_channels, 3));
        const Buffer skips = placed(backend, random_floats(n_channels, 4));
        PlacedRows x(backend, 9, n_channels, random_rows(9, n_channels, 5));
        PlacedRows steps(backend, 9, n_channels, random_rows(9, n_channels, 6));
        PlacedRows b(backend, 9, dim, random_rows(9, dim, 7));
        PlacedRows c(backend, 9, dim, random_rows(9, dim, 8));
        PlacedRows out(backend, 9, n_channels);
        const StateRun runs[] = {{states.floats(), 0, 1, 0},
                                 {states.floats() + per_run, 1, 5, 2},
                                 {states.floats() + 2 * per_run, 6, 3, 3}};
        backend.selective_scan({decays.floats(), biases.floats(), skips.floats()}, runs,
                               {x.rows, steps.rows, b.rows, c.rows}, out.rows);
        std::vector<float> all = out.values();
        append(all, floats_of(backend, states));
        return all;
      })) << n_channels
          << " channels, " << dim;
    }
  }
}

TEST(CudaState, state_matrices_of_draft_tokens_are_allocated_in_advance) {
  BothBackends both;
  WorkLimits limits;
  limits.recurrences = {{.n_heads = 32, .n_key_heads = 16, .key_dim = 128, .value_dim = 128}};
  EXPECT_EQ(both.cuda().scratch_bytes(limits), 0u);
  limits.n_draft_runs = 3;
  EXPECT_EQ(both.cuda().scratch_bytes(limits), 3u * (2u << 20));
  const uint64_t before = both.device().held_bytes();
  both.cuda().reserve(limits);
  EXPECT_EQ(both.device().held_bytes() - before, 3u * (2u << 20));
}

TEST(CudaLowRank, changes_of_low_rank_have_the_cpus_bits) {
  BothBackends both;
  for (const ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
    for (const uint32_t rank : {1u, 8u, 17u, 160u}) {
      for (const uint32_t n_cols : {5u, 256u, 600u}) {
        EXPECT_TRUE(both.agree([&](Backend& backend) {
          const std::vector<float> a = random_rows(rank, n_cols, 1), b = random_rows(37, rank, 2);
          const LowRankView view = {a, b, 37, n_cols, rank, 0.7f, type};
          const Buffer place = backend.memory().allocate(2 * backend.low_rank_bytes(view));
          const auto matrix = backend.pack_low_rank(view, place.data());
          const auto other =
              backend.pack_low_rank(view, place.data() + backend.low_rank_bytes(view));
          PlacedRows x(backend, 6, n_cols + 3, random_rows(6, n_cols + 3, 3));
          PlacedRows out(backend, 6, 80, random_rows(6, 80, 4));
          const std::vector<uint32_t> x_rows = {0, 5, 2}, out_rows = {1, 0, 3}, last = {4};
          const LowRankTerm terms[] = {{matrix.get(), x_rows, out_rows, 2, 41},
                                       {other.get(), last, last, 0, 3}};
          backend.add_low_rank(x.rows, terms, out.rows);
          return out.values();
        })) << traits(type).name
            << " rank " << rank << " of " << n_cols;
      }
    }
  }
}

}  // namespace
}  // namespace kvik
