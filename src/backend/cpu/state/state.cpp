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

// Queries and keys of one head, of tokens that pass its matrices one after the other.
struct Keys {
  const float *q, *k;
  size_t step;
};

// So many tokens at most are gathered before they pass; fewer than kFewTokens, and guesses that are
// more, are read where they stand.
constexpr uint32_t kTokensTogether = 64;
constexpr uint32_t kFewTokens = 8;
// Heads of one key head that an item takes at most: all of them meet what was gathered once.
constexpr uint32_t kHeadsTogether = 2;

// Rows of a model are a power of two apart, more often than not, so that those of a few tokens fall
// into the same sets of each cache: what several blocks of columns read is put side by side first.
Keys gather(const RecurrenceRows& in, size_t first_row, uint32_t n, size_t column, uint32_t key_dim,
            float* to) {
  const float* q = row_of(in.q, first_row) + column;
  const float* k = row_of(in.k, first_row) + column;
  if (n < kFewTokens || n > kTokensTogether) return {q, k, in.q.stride};
  const size_t step = size_t{2} * key_dim;
  for (size_t t = 0; t < n; ++t) {
    std::copy_n(q + t * in.q.stride, key_dim, to + t * step);
    std::copy_n(k + t * in.k.stride, key_dim, to + t * step + key_dim);
  }
  return {to, to + key_dim, step};
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
  const size_t gathered = size_t{2} * key_dim * kTokensTogether;
  scratch_.resize(std::max(scratch_.size(), (block + gathered) * pool_.n_threads()));
  // Tokens [first_row, first_row + n) pass the columns from `first` on.
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
            .decay = row_of(in.decay, first_row) + head,
            .rate = row_of(in.rate, first_row) + head,
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
      const bool is_guess = done >= run.n_kept();
      const uint32_t n = is_guess ? run.n_guesses : std::min(kTokensTogether, run.n_kept() - done);
      const size_t first_row = size_t{run.first_row} + done;
      const Keys keys =
          gather(in, first_row, n, size_t{key_head} * key_dim, key_dim, scratch + block);
      each_block([&](float* columns, uint32_t head, uint32_t first) {
        if (is_guess) {
          const uint32_t n_columns = std::min(kStateColumns, value_dim - first);
          std::copy_n(columns, size_t{key_dim} * n_columns, scratch);
        }
        pass(is_guess ? scratch : columns, head, first, keys, first_row, n);
      });
      done += n;
    }
  };
  const uint32_t of_key = n_heads / n_key_heads;
  // Where nothing is gathered, heads are apart: more items for more threads.
  const uint32_t n_together = n_rows_of(runs) < kFewTokens * runs.size() ? 1 : kHeadsTogether;
  const uint32_t n_sets = ceil_div(of_key, n_together);
  for_items(runs.size() * n_key_heads * n_sets, n_rows_of(runs) * n_heads * matrix,
            [&](size_t item, uint32_t thread) {
              const auto set = static_cast<uint32_t>(item % n_sets);
              const auto key_head = static_cast<uint32_t>(item / n_sets % n_key_heads);
              pass_heads(runs[item / n_sets / n_key_heads], key_head, set * n_together,
                         std::min(of_key, (set + 1) * n_together),
                         scratch_.data() + thread * (block + gathered));
            });
}

}  // namespace kvik::cpu
