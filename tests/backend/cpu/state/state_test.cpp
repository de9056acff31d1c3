#include "backend/cpu/state/state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa.h"
#include "backend/exact_math.h"
#include "backend/host_memory.h"
#include "backend/random_matrix.h"

// Compares recurrences in f32 with the formulas in double. The bits must not depend on how the
// tokens are divided into steps.
namespace kvik::cpu {
namespace {

using testing::random_floats;
using testing::same_bytes;

constexpr uint32_t kTokens = 70;  // more than the kernels process at a time
constexpr float kLengthEps = 1e-6f;

struct Geometry {
  RecurrenceShape shape;
  size_t keys() const { return size_t{shape.n_key_heads} * shape.key_dim; }
  size_t values() const { return size_t{shape.n_heads} * shape.value_dim; }
  size_t floats() const { return values() * shape.key_dim; }
};
constexpr Geometry kGeometries[] = {
    {{.n_heads = 4, .n_key_heads = 2, .key_dim = 48, .value_dim = 48}},
    {{.n_heads = 4, .n_key_heads = 2, .key_dim = 32, .value_dim = 64, .is_tiled = true}},
    {{.n_heads = 1, .n_key_heads = 1, .key_dim = 16, .value_dim = 16}},
};

// The inputs of kTokens tokens.
struct Tokens {
  explicit Tokens(const Geometry& g)
      : q(random_floats(kTokens * g.keys(), 1)),
        k(random_floats(kTokens * g.keys(), 2)),
        v(random_floats(kTokens * g.values(), 3)),
        decay(random_floats(kTokens * g.shape.n_heads, 4)),
        rate(random_floats(kTokens * g.shape.n_heads, 5)) {
    for (float& x : k) x *= 0.1f;
    for (float& x : decay) x = 1 / (1 + std::exp(-x - 2));
    for (float& x : rate) x = 1 / (1 + std::exp(-x));
  }

  std::vector<float> q, k, v, decay, rate;
};

Rows rows_over(std::vector<float>& values, uint32_t n_rows) {
  const auto n_cols = static_cast<uint32_t>(values.size() / n_rows);
  return {values.data(), n_rows, n_cols, n_cols};
}

struct Result {
  std::vector<float> state, out;
};

// Runs the recurrence from a random state, in steps of n_rows tokens, n_draft_tokens of which are
// draft tokens.
struct Cut {
  uint32_t n_rows, n_draft_tokens = 0;
};
Result recur(const StateKernels& kernels, const Geometry& g, bool is_delta,
             const std::vector<Cut>& cuts) {
  ThreadPool pool(2);
  HostMemory memory;
  State state(kernels, memory, pool);
  Tokens tokens(g);
  Result result{random_floats(g.floats(), 6), std::vector<float>(kTokens * g.values())};
  const std::vector<float> skips = random_floats(g.shape.n_heads, 7);
  const RecurrenceRows in{.q = rows_over(tokens.q, kTokens),
                          .k = rows_over(tokens.k, kTokens),
                          .v = rows_over(tokens.v, kTokens),
                          .decay = rows_over(tokens.decay, kTokens),
                          .rate = rows_over(tokens.rate, kTokens)};
  const Rows out = rows_over(result.out, kTokens);
  uint32_t first = 0;
  for (const Cut& cut : cuts) {
    const StateRun run{result.state.data(), first, cut.n_rows, cut.n_draft_tokens};
    if (is_delta) {
      state.delta_rule(g.shape, {&run, 1}, in, kLengthEps, out);
    } else {
      state.state_space(g.shape, {&run, 1}, in, skips, out);
    }
    first += run.n_kept();
  }
  return result;
}

// Returns a head's values, normalized to a length for the delta rule.
std::vector<double> head_of(const float* x, uint32_t n, bool is_delta, double length) {
  double squares = 0;
  for (uint32_t i = 0; i < n; ++i) squares += double{x[i]} * x[i];
  const double factor = is_delta ? length / std::sqrt(squares + kLengthEps) : 1.0;
  std::vector<double> head(x, x + n);
  for (double& value : head) value *= factor;
  return head;
}

// Computes the same token by token in double.
Result plainly(const Geometry& g, bool is_delta) {
  const Tokens tokens(g);
  const auto& s = g.shape;
  const auto begin = random_floats(g.floats(), 6);
  const auto skips = random_floats(s.n_heads, 7);
  Result result{{}, std::vector<float>(kTokens * g.values())};
  for (uint32_t head = 0; head < s.n_heads; ++head) {
    for (uint32_t column = 0; column < s.value_dim; ++column) {
      // Blocks of columns are stored one after the other.
      const uint32_t block = column / kStateColumns * kStateColumns;
      const uint32_t width = std::min(kStateColumns, s.value_dim - block);
      std::vector<double> matrix(s.key_dim);
      for (uint32_t i = 0; i < s.key_dim; ++i) {
        matrix[i] =
            begin[(size_t{head} * s.value_dim + block) * s.key_dim + i * width + column - block];
      }
      for (uint32_t t = 0; t < kTokens; ++t) {
        const size_t key = t * g.keys() + size_t{s.key_head(head)} * s.key_dim;
        const auto q = head_of(&tokens.q[key], s.key_dim, is_delta, 1 / std::sqrt(s.key_dim));
        const auto k = head_of(&tokens.k[key], s.key_dim, is_delta, 1);
        const size_t at = t * g.values() + size_t{head} * s.value_dim + column;
        const double decay = tokens.decay[t * s.n_heads + head];
        const double rate = tokens.rate[t * s.n_heads + head];
        double said = 0, out = 0;
        for (uint32_t i = 0; i < s.key_dim; ++i) said += (matrix[i] *= decay) * k[i];
        const double delta = rate * (tokens.v[at] - (is_delta ? said : 0));
        for (uint32_t i = 0; i < s.key_dim; ++i) out += (matrix[i] += delta * k[i]) * q[i];
        result.out[at] =
            static_cast<float>(out + (is_delta ? 0.0 : double{skips[head]} * tokens.v[at]));
      }
    }
  }
  return result;
}

class Recurrence : public ::testing::TestWithParam<bool> {};

TEST_P(Recurrence, is_the_formula_on_every_instruction_set) {
  for (const Geometry& g : kGeometries) {
    const Result want = plainly(g, GetParam());
    std::vector<Result> got;
    for (const InstructionSet& isa : instruction_sets()) {
      if (isa.runs_here()) got.push_back(recur(isa.state, g, GetParam(), {{kTokens}}));
    }
    for (size_t i = 0; i < want.out.size(); ++i) {
      EXPECT_NEAR(got[0].out[i], want.out[i], 1e-4 * (1 + std::abs(want.out[i]))) << i;
    }
    for (const Result& other : got) {
      EXPECT_TRUE(same_bytes(other.out, got[0].out));
      EXPECT_TRUE(same_bytes(other.state, got[0].state));
    }
  }
}

TEST_P(Recurrence, steps_and_draft_tokens_do_not_change_bits) {
  const StateKernels& kernels = find_instruction_set("")->state;
  for (const Geometry& g : kGeometries) {
    const Result whole = recur(kernels, g, GetParam(), {{kTokens}});
    for (const std::vector<Cut>& cuts : std::vector<std::vector<Cut>>{{{1}, {69}},
                                                                      {{4}, {1}, {65}},
                                                                      {{3, 2}, {1}, {68}},
                                                                      {{70, 69}, {69, 68}, {68}},
                                                                      {{5, 5}, {70, 1}, {1}}}) {
      const Result cut = recur(kernels, g, GetParam(), cuts);
      EXPECT_TRUE(same_bytes(cut.out, whole.out));
      EXPECT_TRUE(same_bytes(cut.state, whole.state));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Recurrence, ::testing::Bool(), [](const auto& info) {
  return info.param ? "delta_rule" : "state_space";
});

TEST_P(Recurrence, scratch_memory_is_counted_and_allocated_before) {
  for (const Geometry& g : kGeometries) {
    const auto backend = make_cpu_backend({.n_threads = 3, .isa = {}});
    ASSERT_TRUE(backend.has_value());
    const auto& memory = static_cast<HostMemory&>((*backend)->memory());
    WorkLimits limits;
    limits.n_rows = limits.n_draft_tokens = kTokens;
    const uint64_t without_state = (*backend)->scratch_bytes(limits);
    limits.recurrences = {g.shape};
    const uint64_t counted = (*backend)->scratch_bytes(limits);
    EXPECT_GE(counted - without_state, 3 * 2 * kTokens * g.shape.key_dim * sizeof(float));
    (*backend)->reserve(limits);
    const uint64_t reserved = memory.held_bytes();
    EXPECT_LE(reserved, counted);
    EXPECT_GE(reserved, counted - without_state);
    Tokens tokens(g);
    std::vector<float> state(g.floats()), values(kTokens * g.values());
    const std::vector<float> skips(g.shape.n_heads);
    const RecurrenceRows in{.q = rows_over(tokens.q, kTokens),
                            .k = rows_over(tokens.k, kTokens),
                            .v = rows_over(tokens.v, kTokens),
                            .decay = rows_over(tokens.decay, kTokens),
                            .rate = rows_over(tokens.rate, kTokens)};
    for (const uint32_t n_draft_tokens : {0u, kTokens}) {
      const StateRun run{state.data(), 0, kTokens, n_draft_tokens};
      if (GetParam()) {
        (*backend)->delta_rule(g.shape, {&run, 1}, in, kLengthEps, rows_over(values, kTokens));
      } else {
        (*backend)->state_space(g.shape, {&run, 1}, in, skips, rows_over(values, kTokens));
      }
      EXPECT_EQ(memory.held_bytes(), reserved);
    }
  }
}

// A decay per channel of a key that is that of its head gives the bits of a decay per head; others
// are the formula.
TEST(KeyDecays, are_those_of_their_channels_on_every_instruction_set) {
  RecurrenceShape shape{.n_heads = 2, .n_key_heads = 2, .key_dim = 32, .value_dim = 48};
  const Geometry g{shape};
  const Tokens tokens(g);
  const auto apply = [&](const StateKernels& kernels, const RecurrenceShape& s,
                         std::vector<float> decays) {
    ThreadPool pool(2);
    HostMemory memory;
    State state(kernels, memory, pool);
    Tokens own(g);
    Result result{random_floats(g.floats(), 6), std::vector<float>(kTokens * g.values())};
    const StateRun run{result.state.data(), 0, kTokens, 0};
    state.delta_rule(s, {&run, 1},
                     {.q = rows_over(own.q, kTokens),
                      .k = rows_over(own.k, kTokens),
                      .v = rows_over(own.v, kTokens),
                      .decay = rows_over(decays, kTokens),
                      .rate = rows_over(own.rate, kTokens)},
                     kLengthEps, rows_over(result.out, kTokens));
    return result;
  };
  RecurrenceShape by_key = shape;
  by_key.decays_keys = true;
  std::vector<float> alike, mixed;
  for (const float decay : tokens.decay) alike.insert(alike.end(), shape.key_dim, decay);
  for (size_t i = 0; i < alike.size(); ++i) {
    mixed.push_back(i % 3 == 0 ? 0.5f * alike[i] : alike[i]);
  }
  std::vector<Result> got;
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    const Result of_heads = apply(isa.state, shape, tokens.decay);
    const Result of_keys = apply(isa.state, by_key, alike);
    EXPECT_TRUE(same_bytes(of_keys.out, of_heads.out)) << isa.name;
    EXPECT_TRUE(same_bytes(of_keys.state, of_heads.state)) << isa.name;
    got.push_back(apply(isa.state, by_key, mixed));
    EXPECT_TRUE(same_bytes(got.back().out, got[0].out)) << isa.name;
  }
  // The first column of each head, in double.
  const auto begin = random_floats(g.floats(), 6);
  for (uint32_t head = 0; head < shape.n_heads; ++head) {
    std::vector<double> matrix(shape.key_dim);
    for (uint32_t i = 0; i < shape.key_dim; ++i) {
      matrix[i] = begin[size_t{head} * shape.value_dim * shape.key_dim + i * kStateColumns];
    }
    for (uint32_t t = 0; t < kTokens; ++t) {
      const size_t key = t * g.keys() + size_t{head} * shape.key_dim;
      const auto q = head_of(&tokens.q[key], shape.key_dim, true, 1 / std::sqrt(shape.key_dim));
      const auto k = head_of(&tokens.k[key], shape.key_dim, true, 1);
      const size_t at = t * g.values() + size_t{head} * shape.value_dim;
      double retrieved = 0, out = 0;
      for (uint32_t i = 0; i < shape.key_dim; ++i) {
        retrieved += (matrix[i] *= double{mixed[key + i]}) * k[i];
      }
      const double delta = tokens.rate[t * shape.n_heads + head] * (tokens.v[at] - retrieved);
      for (uint32_t i = 0; i < shape.key_dim; ++i) out += (matrix[i] += delta * k[i]) * q[i];
      EXPECT_NEAR(got[0].out[at], out, 1e-4 * (1 + std::abs(out))) << head << " " << t;
    }
  }
}

TEST(StateGates, are_the_exact_functions_on_every_instruction_set) {
  constexpr uint32_t kHeads = 37;  // not a multiple of any vector length
  const auto factors = random_floats(kHeads, 1), biases = random_floats(kHeads, 2);
  auto a = random_floats(kHeads, 3), b = random_floats(kHeads, 4);
  for (float& x : a) x *= 40;
  a[1] = b[2] = 1e30f, a[3] = b[4] = -1e30f, a[5] = b[6] = HUGE_VALF, a[7] = b[8] = -HUGE_VALF;
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    auto decay = a, rate = b, steps = a, decay_of_steps = b;
    isa.state.gates({decay.data(), rate.data(), factors.data(), biases.data(), kHeads});
    isa.state.steps({steps.data(), decay_of_steps.data(), factors.data(), biases.data(), kHeads});
    auto unchanged = a, bounded = b;
    isa.state.bounded_decays({.a = unchanged.data(),
                              .b = bounded.data(),
                              .factors = factors.data(),
                              .biases = biases.data(),
                              .n_heads = kHeads,
                              .bound = -5.0f});
    EXPECT_TRUE(same_bytes(unchanged, a)) << isa.name;
    for (uint32_t i = 0; i < kHeads; ++i) {
      const double input = double{factors[i]} * (double{a[i]} + double{biases[i]});
      EXPECT_EQ(bounded[i], static_cast<float>(exact_exp(-5.0 * exact_sigmoid(input))))
          << isa.name << " " << a[i];
      const double step = exact_softplus(double{a[i]} + double{biases[i]});
      const auto decayed = static_cast<float>(exact_exp(double{factors[i]} * step));
      EXPECT_EQ(decay[i], decayed) << isa.name << " " << a[i];
      EXPECT_EQ(decay_of_steps[i], decayed) << isa.name << " " << a[i];
      EXPECT_EQ(rate[i], static_cast<float>(exact_sigmoid(double{b[i]})))
          << isa.name << " " << b[i];
      EXPECT_EQ(steps[i], static_cast<float>(step)) << isa.name << " " << a[i];
    }
  }
}

constexpr uint32_t kScanned = 144, kScanDim = 16;  // channels in three pieces

// Scans kTokens tokens from a random state. Steps become their softplus, so that each cut has a
// copy.
Result scan(const StateKernels& kernels, const std::vector<Cut>& cuts) {
  ThreadPool pool(2);
  HostMemory memory;
  State state(kernels, memory, pool);
  auto x = random_floats(kTokens * kScanned, 1), b = random_floats(kTokens * kScanDim, 3),
       c = random_floats(kTokens * kScanDim, 4);
  auto factors = random_floats(kScanDim * kScanned, 5);
  for (float& factor : factors) factor = -std::abs(factor);
  const auto biases = random_floats(kScanned, 6), skips = random_floats(kScanned, 7);
  Result result{random_floats(kScanDim * kScanned, 8), std::vector<float>(kTokens * kScanned)};
  uint32_t first = 0;
  for (const Cut& cut : cuts) {
    auto steps = random_floats(kTokens * kScanned, 2);
    const StateRun run{result.state.data(), first, cut.n_rows, cut.n_draft_tokens};
    state.selective_scan({factors.data(), biases.data(), skips.data()}, {&run, 1},
                         {.x = rows_over(x, kTokens),
                          .steps = rows_over(steps, kTokens),
                          .b = rows_over(b, kTokens),
                          .c = rows_over(c, kTokens)},
                         rows_over(result.out, kTokens));
    first += run.n_kept();
  }
  return result;
}

TEST(SelectiveScan, is_the_formula_on_every_instruction_set) {
  const auto x = random_floats(kTokens * kScanned, 1), steps = random_floats(kTokens * kScanned, 2),
             b = random_floats(kTokens * kScanDim, 3), c = random_floats(kTokens * kScanDim, 4),
             factors = random_floats(kScanDim * kScanned, 5), biases = random_floats(kScanned, 6),
             skips = random_floats(kScanned, 7), begin = random_floats(kScanDim * kScanned, 8);
  std::vector<Result> got;
  for (const InstructionSet& isa : instruction_sets()) {
    if (isa.runs_here()) got.push_back(scan(isa.state, {{kTokens}}));
  }
  for (uint32_t channel = 0; channel < kScanned; ++channel) {
    std::vector<double> state(kScanDim);
    for (uint32_t n = 0; n < kScanDim; ++n) state[n] = begin[n * kScanned + channel];
    for (uint32_t t = 0; t < kTokens; ++t) {
      const size_t at = size_t{t} * kScanned + channel;
      const double step = std::log1p(std::exp(double{steps[at]} + double{biases[channel]}));
      double out = double{skips[channel]} * x[at];
      for (uint32_t n = 0; n < kScanDim; ++n) {
        const double decay = std::exp(-step * std::abs(factors[n * kScanned + channel]));
        state[n] = decay * state[n] + b[t * kScanDim + n] * step * x[at];
        out += c[t * kScanDim + n] * state[n];
      }
      ASSERT_NEAR(got[0].out[at], out, 1e-4 * (1 + std::abs(out))) << channel << " " << t;
    }
  }
  for (const Result& other : got) {
    EXPECT_TRUE(same_bytes(other.out, got[0].out));
    EXPECT_TRUE(same_bytes(other.state, got[0].state));
  }
}

TEST(SelectiveScan, steps_and_draft_tokens_do_not_change_bits) {
  const StateKernels& kernels = find_instruction_set("")->state;
  const Result whole = scan(kernels, {{kTokens}});
  for (const std::vector<Cut>& cuts : std::vector<std::vector<Cut>>{
           {{1}, {69}}, {{3, 2}, {1}, {68}}, {{70, 69}, {69}}, {{5, 5}, {70, 1}, {1}}}) {
    const Result cut = scan(kernels, cuts);
    EXPECT_TRUE(same_bytes(cut.out, whole.out));
    EXPECT_TRUE(same_bytes(cut.state, whole.state));
  }
}

TEST(ShortConv, steps_and_draft_tokens_do_not_change_bits) {
  constexpr uint32_t kChannels = 530, kConvKernel = 4;
  const auto conv_weights = random_floats(kConvKernel * kChannels, 1),
             bias = random_floats(kChannels, 2);
  auto x = random_floats(kTokens * kChannels, 3);
  const auto convolve = [&](const StateKernels& kernels, const std::vector<Cut>& cuts) {
    ThreadPool pool(2);
    HostMemory memory;
    State conv(kernels, memory, pool);
    Result result{random_floats((kConvKernel - 1) * kChannels, 4),
                  std::vector<float>(kTokens * kChannels)};
    uint32_t first = 0;
    for (const Cut& cut : cuts) {
      const StateRun run{result.state.data(), first, cut.n_rows, cut.n_draft_tokens};
      conv.short_conv({.conv_weights = conv_weights.data(),
                       .bias = bias.data(),
                       .kernel_size = kConvKernel,
                       .is_activated = true},
                      {&run, 1}, rows_over(x, kTokens), rows_over(result.out, kTokens));
      first += run.n_kept();
    }
    return result;
  };
  const Result whole = convolve(find_instruction_set("")->state, {{kTokens}});
  const auto begin = random_floats((kConvKernel - 1) * kChannels, 4);
  for (uint32_t t = 0; t < kTokens; ++t) {
    for (uint32_t c = 0; c < kChannels; ++c) {
      double sum = bias[c];
      for (uint32_t i = 0; i < kConvKernel; ++i) {
        const uint32_t row = t + i;  // a row of the earlier inputs, then of x
        sum += double{conv_weights[i * kChannels + c]} *
               (row < kConvKernel - 1 ? begin[row * kChannels + c]
                                      : x[(row - kConvKernel + 1) * kChannels + c]);
      }
      ASSERT_NEAR(whole.out[t * kChannels + c], sum / (1 + std::exp(-sum)), 1e-5) << t << " " << c;
    }
  }
  for (const InstructionSet& isa : instruction_sets()) {
    if (!isa.runs_here()) continue;
    for (const std::vector<Cut>& cuts : std::vector<std::vector<Cut>>{
             {{kTokens}}, {{1}, {69}}, {{2, 2}, {3, 2}, {1}, {68}}, {{70, 69}, {69, 67}, {67}}}) {
      const Result cut = convolve(isa.state, cuts);
      EXPECT_TRUE(same_bytes(cut.out, whole.out)) << isa.name;
      EXPECT_TRUE(same_bytes(cut.state, whole.state)) << isa.name;
    }
  }
}

}  // namespace
}  // namespace kvik::cpu
