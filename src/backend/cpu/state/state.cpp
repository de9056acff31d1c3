#include "backend/cpu/state/state.h"

#include <algorithm>

#include "backend/exact_math.h"
#include "base/check.h"

namespace kvik::cpu {
namespace {

// Fewer floats than this are done by the caller sooner than the other threads are woken.
constexpr size_t kFloatsWorthSharing = size_t{1} << 14;
constexpr uint32_t kPieceChannels = 512;  // of a convolution; a multiple of the lanes

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
    CHECK(run.n_guesses <= run.n_rows);
  }
}

// Goes on behind so many of the task's tokens.
void pass_over(RecurrenceTask& task, size_t n_tokens) {
  task.q += n_tokens * task.qk_step;
  task.k += n_tokens * task.qk_step;
  task.v += n_tokens * task.v_step;
  task.decay += n_tokens * task.decay_step;
  task.rate += n_tokens * task.rate_step;
  task.out += n_tokens * task.out_step;
}

}  // namespace

template <class Body>
void State::for_items(size_t n_items, size_t n_floats, const Body& body) {
  if (n_floats < kFloatsWorthSharing) {
    for (size_t item = 0; item < n_items; ++item) body(item, 0);
  } else {
    pool_.run(n_items, body);
  }
}

void State::short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x, Rows out) {
  CHECK(x.n_rows == out.n_rows && x.n_cols == out.n_cols && shape.n_taps > 1);
  check_runs(runs, x.n_rows);
  const uint32_t n_pieces = ceil_div(x.n_cols, kPieceChannels);
  for_items(runs.size() * n_pieces, n_rows_of(runs) * x.n_cols * shape.n_taps,
            [&](size_t item, uint32_t) {
              const StateRun& run = runs[item / n_pieces];
              const uint32_t first = static_cast<uint32_t>(item % n_pieces) * kPieceChannels;
              kernels_.short_conv({.taps = shape.taps + first,
                                   .bias = shape.bias ? shape.bias + first : nullptr,
                                   .state = run.state + first,
                                   .channel_step = x.n_cols,
                                   .x = row_of(x, run.first_row) + first,
                                   .out = row_of(out, run.first_row) + first,
                                   .x_step = x.stride,
                                   .out_step = out.stride,
                                   .n_channels = std::min(kPieceChannels, x.n_cols - first),
                                   .n_taps = shape.n_taps,
                                   .n_tokens = run.n_rows,
                                   .n_kept = run.n_kept(),
                                   .is_activated = shape.is_activated});
            });
}

void State::l2_norm(Rows x, uint32_t head_dim, float eps, float scale) {
  CHECK(head_dim > 0 && x.n_cols % head_dim == 0);
  for_items(x.n_rows, size_t{x.n_rows} * x.n_cols, [&](size_t row, uint32_t) {
    for (uint32_t first = 0; first < x.n_cols; first += head_dim) {
      kernels_.l2_norm(row_of(x, row) + first, head_dim, eps, scale);
    }
  });
}

// In double, as the probabilities of experts: a few numbers of each row.
void State::gates(Rows decay, Rows rate, std::span<const float> factors,
                  std::span<const float> biases) {
  CHECK(decay.n_rows == rate.n_rows && decay.n_cols == rate.n_cols);
  CHECK(factors.size() == decay.n_cols && biases.size() == decay.n_cols);
  for_items(decay.n_rows, size_t{64} * decay.n_rows * decay.n_cols, [&](size_t row, uint32_t) {
    float* g = row_of(decay, row);
    float* beta = row_of(rate, row);
    for (uint32_t head = 0; head < decay.n_cols; ++head) {
      const double step = exact_softplus(double{g[head]} + double{biases[head]});
      g[head] = static_cast<float>(exact_exp(double{factors[head]} * step));
      beta[head] = static_cast<float>(exact_sigmoid(double{beta[head]}));
    }
  });
}

void State::steps(Rows steps, Rows decay, std::span<const float> factors,
                  std::span<const float> biases) {
  CHECK(decay.n_rows == steps.n_rows && decay.n_cols == steps.n_cols);
  CHECK(factors.size() == decay.n_cols && biases.size() == decay.n_cols);
  for_items(decay.n_rows, size_t{64} * decay.n_rows * decay.n_cols, [&](size_t row, uint32_t) {
    float* dt = row_of(steps, row);
    for (uint32_t head = 0; head < decay.n_cols; ++head) {
      const double step = exact_softplus(double{dt[head]} + double{biases[head]});
      dt[head] = static_cast<float>(step);
      row_of(decay, row)[head] = static_cast<float>(exact_exp(double{factors[head]} * step));
    }
  });
}

void State::recur(const RecurrenceShape& shape, std::span<const StateRun> runs,
                  const RecurrenceRows& in, std::span<const float> skips, Kernel kernel, Rows out) {
  const auto [n_heads, n_key_heads, key_dim, value_dim, is_tiled] = shape;
  CHECK(key_dim % 16 == 0 && value_dim % 16 == 0 && n_heads % n_key_heads == 0);
  CHECK(in.q.n_cols == n_key_heads * key_dim && in.k.n_cols == in.q.n_cols);
  CHECK(in.q.stride == in.k.stride);
  CHECK(in.v.n_cols == n_heads * value_dim && out.n_cols == in.v.n_cols);
  check_runs(runs, out.n_rows);
  const size_t matrix = size_t{key_dim} * value_dim;
  const size_t block = size_t{key_dim} * kStateColumns;
  scratch_.resize(std::max(scratch_.size(), block * pool_.n_threads()));
  const auto recur_block = [&](const StateRun& run, uint32_t head, uint32_t first, float* scratch) {
    const size_t of_keys = size_t{shape.key_head(head)} * key_dim;
    const size_t column = size_t{head} * value_dim + first;
    RecurrenceTask task{.matrix = run.state + head * matrix + size_t{first} * key_dim,
                        .key_dim = key_dim,
                        .n_columns = std::min(kStateColumns, value_dim - first),
                        .n_tokens = run.n_kept(),
                        .q = row_of(in.q, run.first_row) + of_keys,
                        .k = row_of(in.k, run.first_row) + of_keys,
                        .v = row_of(in.v, run.first_row) + column,
                        .decay = row_of(in.decay, run.first_row) + head,
                        .rate = row_of(in.rate, run.first_row) + head,
                        .out = row_of(out, run.first_row) + column,
                        .qk_step = in.q.stride,
                        .v_step = in.v.stride,
                        .decay_step = in.decay.stride,
                        .rate_step = in.rate.stride,
                        .out_step = out.stride,
                        .skip = skips.empty() ? 0.0f : skips[head]};
    if (task.n_tokens > 0) kernel(task);
    if (run.n_guesses == 0) return;
    std::copy_n(task.matrix, size_t{key_dim} * task.n_columns, scratch);
    task.matrix = scratch;
    pass_over(task, task.n_tokens);
    task.n_tokens = run.n_guesses;
    kernel(task);
  };
  for_items(runs.size() * n_heads, n_rows_of(runs) * n_heads * matrix,
            [&](size_t item, uint32_t thread) {
              for (uint32_t first = 0; first < value_dim; first += kStateColumns) {
                recur_block(runs[item / n_heads], static_cast<uint32_t>(item % n_heads), first,
                            scratch_.data() + thread * block);
              }
            });
}

}  // namespace kvik::cpu
