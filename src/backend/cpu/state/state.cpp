#include "backend/cpu/state/state.h"

#include <algorithm>

#include "backend/cpu/scratch.h"
#include "base/check.h"
#include "tensor/scan_limits.h"

namespace kvik::cpu {
namespace {

// Channels per item of a convolution; a multiple of the lanes.
constexpr uint32_t kPieceChannels = 512;
constexpr uint32_t kScanChannels = 64;  // the same of selective_scan()

uint32_t ceil_div(uint32_t n, uint32_t unit) { return n / unit + (n % unit != 0); }

float* row_of(Rows x, size_t row) { return x.data + row * x.stride; }

size_t n_rows_of(std::span<const StateRun> runs) {
  size_t n = 0;
  for (const StateRun& run : runs) n += run.n_rows;
  return n;
}

void check_runs(std::span<const StateRun> runs, uint32_t n_rows) {
  for (const StateRun& run : runs) {
    CHECK(run.state && run.first_row <= n_rows && run.n_rows <= n_rows - run.first_row);
    CHECK(run.n_draft_tokens <= run.n_rows);
  }
}

// Maximum number of tokens whose rows are gathered at a time, unless a run has more draft tokens.
constexpr uint32_t kTokensTogether = 64;
// Fewer tokens than this are read in place, unless they must be normalized.
constexpr uint32_t kFewTokens = 8;
// Number of rows by which gathering prefetches ahead. Each row is in another memory page.
constexpr uint32_t kRowsAhead = 4;
// Maximum number of heads per item that use the same key head. They share the gathered rows.
constexpr uint32_t kHeadsTogether = 2;

// The scratch memory of one thread, in floats: a block of columns, then queries and keys.
struct ThreadScratch {
  size_t block, gathered;
  size_t n_floats() const { return block + gathered; }
};
ThreadScratch scratch_of(const RecurrenceShape& shape, uint32_t n_tokens) {
  return {.block = size_t{shape.key_dim} * kStateColumns,
          .gathered = size_t{2} * shape.key_dim * std::max(kTokensTogether, n_tokens)};
}

// Always inlined, because GCC 12 otherwise takes it for a function without effects.
[[gnu::always_inline]] inline void prefetch(const float* p, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 64 / sizeof(float)) __builtin_prefetch(p + i);
}

}  // namespace

uint64_t State::scratch_bytes(const WorkLimits& limits) const {
  size_t n_floats = 0;
  for (const RecurrenceShape& shape : limits.recurrences) {
    n_floats = std::max(n_floats, scratch_of(shape, limits.n_draft_tokens).n_floats());
  }
  return n_floats * pool_.n_threads() * sizeof(float);
}

void State::reserve(const WorkLimits& limits) { grow_scratch(scratch_bytes(limits)); }

void State::grow_scratch(size_t n_bytes) {
  if (scratch_.size() >= n_bytes) return;
  scratch_ = Buffer();
  scratch_ = memory_.allocate(n_bytes);
}

template <class Body>
void State::for_items(size_t n_items, size_t n_floats, const Body& body) {
  if (n_floats < kFloatsWorthSharing) {
    for (size_t item = 0; item < n_items; ++item) body(item, 0);
  } else {
    pool_.run(n_items, body);
  }
}

void State::short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x, Rows out) {
  CHECK(x.n_rows == out.n_rows && x.n_cols == out.n_cols && shape.kernel_size > 1);
  check_runs(runs, x.n_rows);
  const uint32_t n_pieces = ceil_div(x.n_cols, kPieceChannels);
  for_items(runs.size() * n_pieces, n_rows_of(runs) * x.n_cols * shape.kernel_size,
            [&](size_t item, uint32_t) {
              const StateRun& run = runs[item / n_pieces];
              const uint32_t first = static_cast<uint32_t>(item % n_pieces) * kPieceChannels;
              kernels_.short_conv({.conv_weights = shape.conv_weights + first,
                                   .bias = shape.bias ? shape.bias + first : nullptr,
                                   .state = run.state + first,
                                   .channel_step = x.n_cols,
                                   .x = row_of(x, run.first_row) + first,
                                   .out = row_of(out, run.first_row) + first,
                                   .x_step = x.stride,
                                   .out_step = out.stride,
                                   .n_channels = std::min(kPieceChannels, x.n_cols - first),
                                   .kernel_size = shape.kernel_size,
                                   .n_tokens = run.n_rows,
                                   .n_kept = run.n_kept(),
                                   .is_activated = shape.is_activated});
            });
}

void State::selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                           const ScanRows& in, Rows out) {
  const uint32_t n_channels = out.n_cols;
  CHECK(n_channels % 16 == 0 && in.x.n_cols == n_channels && in.steps.n_cols == n_channels);
  CHECK(in.b.n_cols == in.c.n_cols && in.b.n_cols <= kMaxScanState);
  check_runs(runs, out.n_rows);
  const uint32_t n_pieces = ceil_div(n_channels, kScanChannels);
  for_items(runs.size() * n_pieces, n_rows_of(runs) * n_channels * in.b.n_cols,
            [&](size_t item, uint32_t) {
              const StateRun& run = runs[item / n_pieces];
              const uint32_t first = static_cast<uint32_t>(item % n_pieces) * kScanChannels;
              kernels_.selective_scan({.state = run.state + first,
                                       .factors = weights.factors + first,
                                       .biases = weights.biases + first,
                                       .skips = weights.skips + first,
                                       .channel_step = n_channels,
                                       .x = row_of(in.x, run.first_row) + first,
                                       .steps = row_of(in.steps, run.first_row) + first,
                                       .b = row_of(in.b, run.first_row),
                                       .c = row_of(in.c, run.first_row),
                                       .out = row_of(out, run.first_row) + first,
                                       .x_step = in.x.stride,
                                       .steps_step = in.steps.stride,
                                       .b_step = in.b.stride,
                                       .c_step = in.c.stride,
                                       .out_step = out.stride,
                                       .n_channels = std::min(kScanChannels, n_channels - first),
                                       .state_dim = in.b.n_cols,
                                       .n_tokens = run.n_rows,
                                       .n_kept = run.n_kept()});
            });
}

void State::gate(void (*kernel)(const GateTask&), Rows a, Rows b, const DecayShape& shape) {
  CHECK(a.n_rows == b.n_rows && a.n_cols == b.n_cols);
  CHECK(shape.factors.size() == a.n_cols && shape.biases.size() == a.n_cols);
  for_items(a.n_rows, size_t{8} * a.n_rows * a.n_cols, [&](size_t row, uint32_t) {
    kernel({.a = row_of(a, row),
            .b = row_of(b, row),
            .factors = shape.factors.data(),
            .biases = shape.biases.data(),
            .n_heads = a.n_cols,
            .bound = shape.bound});
  });
}

// Queries and keys of one head for consecutive tokens. `step` is the distance between two tokens.
struct State::Keys {
  const float *q, *k;
  size_t step;
};

// Copies the rows that several blocks of columns read to adjacent memory, and normalizes them if
// length_eps is set. Rows are mostly a power of two apart, so those of a few tokens would fall into
// the same cache sets.
State::Keys State::gather(const RecurrenceShape& shape, const RecurrenceRows& in,
                          std::optional<float> length_eps, uint32_t key_head, size_t first_row,
                          uint32_t n, float* to) const {
  const uint32_t dim = shape.key_dim;
  const float* q = row_of(in.q, first_row) + size_t{key_head} * dim;
  const float* k = row_of(in.k, first_row) + size_t{key_head} * dim;
  if (n < kFewTokens && !length_eps) return {q, k, in.q.stride};
  const Keys gathered = {to, to + dim, size_t{2} * dim};
  for (uint32_t t = 0; t < n; ++t, q += in.q.stride, k += in.k.stride, to += gathered.step) {
    if (t + kRowsAhead < n) {
      prefetch(q + kRowsAhead * in.q.stride, dim);
      prefetch(k + kRowsAhead * in.k.stride, dim);
    }
    if (length_eps) {
      kernels_.l2_norm(q, to, dim, *length_eps, shape.query_length());
      kernels_.l2_norm(k, to + dim, dim, *length_eps, 1.0f);
    } else {
      std::copy_n(q, dim, to);
      std::copy_n(k, dim, to + dim);
    }
  }
  return gathered;
}

void State::recur(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, std::optional<float> length_eps,
                  std::span<const float> skips, Kernel kernel, Rows out) {
  const auto [n_heads, n_key_heads, key_dim, value_dim, is_tiled, decays_keys] = shape;
  CHECK(in.decay.n_cols == n_heads * (decays_keys ? key_dim : 1));
  CHECK(key_dim % 16 == 0 && value_dim % 16 == 0 && n_heads % n_key_heads == 0);
  CHECK(in.q.n_cols == n_key_heads * key_dim && in.k.n_cols == in.q.n_cols);
  CHECK(in.q.stride == in.k.stride);
  CHECK(in.v.n_cols == n_heads * value_dim && out.n_cols == in.v.n_cols);
  check_runs(runs, out.n_rows);
  const size_t matrix = size_t{key_dim} * value_dim;
  uint32_t n_draft_tokens = 0;
  for (const StateRun& run : runs) n_draft_tokens = std::max(n_draft_tokens, run.n_draft_tokens);
  const ThreadScratch of_thread = scratch_of(shape, n_draft_tokens);
  const size_t block = of_thread.block;
  grow_scratch(of_thread.n_floats() * pool_.n_threads() * sizeof(float));
  // Processes tokens [first_row, first_row + n) for a block of columns that begins with column
  // `first`.
  const auto pass = [&](float* columns, uint32_t head, uint32_t first, const Keys& keys,
                        size_t first_row, uint32_t n) {
    const size_t column = size_t{head} * value_dim + first;
    kernel({.matrix = columns,
            .key_dim = key_dim,
            .n_columns = std::min(kStateColumns, value_dim - first),
            .n_tokens = n,
            .q = keys.q,
            .k = keys.k,
            .v = row_of(in.v, first_row) + column,
            .rate = row_of(in.rate, first_row) + head,
            .decay = row_of(in.decay, first_row) + size_t{head} * (decays_keys ? key_dim : 1),
            .out = row_of(out, first_row) + column,
            .qk_step = keys.step,
            .v_step = in.v.stride,
            .decay_step = in.decay.stride,
            .rate_step = in.rate.stride,
            .out_step = out.stride,
            .skip = skips.empty() ? 0.0f : skips[head]});
  };
  const auto pass_heads = [&](const StateRun& run, uint32_t key_head, uint32_t first_head,
                              uint32_t end_head, float* scratch) {
    const auto each_block = [&](const auto& function) {
      for (uint32_t i = first_head; i < end_head; ++i) {
        const uint32_t head = shape.head(key_head, i);
        for (uint32_t first = 0; first < value_dim; first += kStateColumns) {
          function(run.state + head * matrix + size_t{first} * key_dim, head, first);
        }
      }
    };
    for (uint32_t done = 0; done < run.n_rows;) {
      const bool is_draft_token = done >= run.n_kept();
      const uint32_t n =
          is_draft_token ? run.n_draft_tokens : std::min(kTokensTogether, run.n_kept() - done);
      const size_t first_row = size_t{run.first_row} + done;
      const Keys keys = gather(shape, in, length_eps, key_head, first_row, n, scratch + block);
      each_block([&](float* columns, uint32_t head, uint32_t first) {
        if (is_draft_token) {
          const uint32_t n_columns = std::min(kStateColumns, value_dim - first);
          std::copy_n(columns, size_t{key_dim} * n_columns, scratch);
        }
        pass(is_draft_token ? scratch : columns, head, first, keys, first_row, n);
      });
      done += n;
    }
  };
  const uint32_t of_key = n_heads / n_key_heads;
  // If rows are not gathered, heads are separate items, which gives more items for more threads.
  const uint32_t n_together = n_rows_of(runs) < kFewTokens * runs.size() ? 1 : kHeadsTogether;
  const uint32_t n_sets = ceil_div(of_key, n_together);
  for_items(runs.size() * n_key_heads * n_sets, n_rows_of(runs) * n_heads * matrix,
            [&](size_t item, uint32_t thread) {
              const auto set = static_cast<uint32_t>(item % n_sets);
              const auto key_head = static_cast<uint32_t>(item / n_sets % n_key_heads);
              pass_heads(runs[item / n_sets / n_key_heads], key_head, set * n_together,
                         std::min(of_key, (set + 1) * n_together),
                         scratch_.floats() + thread * of_thread.n_floats());
            });
}

}  // namespace kvik::cpu
