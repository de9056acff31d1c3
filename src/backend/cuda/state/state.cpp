#include "backend/cuda/state/state.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/scan_limits.h"

namespace kvik::cuda {
namespace {

RowsView view_of(Rows x) { return {x.data, x.stride}; }

// Returns the scratch bytes for the matrices of one run with draft tokens: whole blocks of columns
// per head.
uint64_t scratch_of_run(const RecurrenceShape& shape) {
  return uint64_t{ceil_div(shape.value_dim, kStateColumns)} * kStateColumns * shape.n_heads *
         shape.key_dim * sizeof(float);
}

}  // namespace

const PlacedState* State::place(std::span<const StateRun> runs, uint32_t n_rows) {
  CHECK(runs.size() <= kMaxGridRows);
  placed_.clear();
  n_drafted_ = 0;
  for (const StateRun& run : runs) {
    CHECK(run.state && run.first_row <= n_rows && run.n_rows <= n_rows - run.first_row);
    CHECK(run.n_draft_tokens <= run.n_rows);
    placed_.push_back({run.state, run.first_row, run.n_rows, run.n_kept(), n_drafted_});
    n_drafted_ += run.n_draft_tokens > 0;
  }
  return tables_.put<PlacedState>(placed_);
}

void State::short_conv(const ConvShape& shape, std::span<const StateRun> runs, Rows x, Rows out) {
  CHECK(x.n_rows == out.n_rows && x.n_cols == out.n_cols && shape.kernel_size > 1);
  const Grid grid = {.x = ceil_div(x.n_cols, kStateThreads),
                     .y = static_cast<uint32_t>(runs.size()),
                     .z = 1,
                     .n_threads = kStateThreads};
  require(stream_.launch(kernels_.short_conv, grid,
                         {.conv_weights = shape.conv_weights,
                          .bias = shape.bias,
                          .runs = place(runs, x.n_rows),
                          .x = view_of(x),
                          .out = view_of(out),
                          .n_channels = x.n_cols,
                          .kernel_size = shape.kernel_size,
                          .is_activated = shape.is_activated}));
}

void State::l2_norm(Rows x, uint32_t head_dim, float eps, float scale) {
  CHECK(head_dim > 0 && x.n_cols % head_dim == 0);
  const Grid grid = {.x = x.n_cols / head_dim, .y = grid_rows(x.n_rows), .z = 1, .n_threads = 32};
  require(stream_.launch(
      kernels_.l2_norm, grid,
      {.x = view_of(x), .n_rows = x.n_rows, .n = head_dim, .eps = eps, .scale = scale}));
}

void State::gate(const Kernel<GateTask>& kernel, Rows a, Rows b, const DecayShape& shape) {
  CHECK(a.n_rows == b.n_rows && a.n_cols == b.n_cols);
  CHECK(shape.factors.size() == a.n_cols && shape.biases.size() == a.n_cols);
  const Grid grid = {.x = ceil_div(a.n_cols, kGateThreads),
                     .y = grid_rows(a.n_rows),
                     .z = 1,
                     .n_threads = kGateThreads};
  require(stream_.launch(kernel, grid,
                         {.a = view_of(a),
                          .b = view_of(b),
                          .factors = tables_.put(shape.factors),
                          .biases = tables_.put(shape.biases),
                          .n_rows = a.n_rows,
                          .n_heads = a.n_cols,
                          .bound = shape.bound}));
}

void State::selective_scan(const ScanWeights& weights, std::span<const StateRun> runs,
                           const ScanRows& in, Rows out) {
  CHECK(in.x.n_cols == out.n_cols && in.steps.n_cols == out.n_cols);
  CHECK(in.b.n_cols == in.c.n_cols && in.b.n_cols <= kMaxScanState);
  const Grid grid = {.x = ceil_div(out.n_cols, kStateThreads),
                     .y = static_cast<uint32_t>(runs.size()),
                     .z = 1,
                     .n_threads = kStateThreads};
  require(stream_.launch(kernels_.selective_scan, grid,
                         {.runs = place(runs, out.n_rows),
                          .x = view_of(in.x),
                          .steps = view_of(in.steps),
                          .b = view_of(in.b),
                          .c = view_of(in.c),
                          .out = view_of(out),
                          .factors = weights.factors,
                          .biases = weights.biases,
                          .skips = weights.skips,
                          .n_channels = out.n_cols,
                          .state_dim = in.b.n_cols}));
}

uint64_t State::scratch_bytes(const WorkLimits& limits) {
  uint64_t bytes = 0;
  for (const RecurrenceShape& shape : limits.recurrences) {
    bytes = std::max(bytes, limits.n_draft_runs * scratch_of_run(shape));
  }
  return bytes;
}

void State::reserve(const WorkLimits& limits) { memory_.grow(scratch_, scratch_bytes(limits)); }

void State::recur(const Kernel<RecurrenceTask>& kernel, const RecurrenceShape& shape,
                  std::span<const StateRun> runs, const RecurrenceRows& in,
                  std::span<const float> skips, Rows out) {
  CHECK(shape.key_dim % 16 == 0 && shape.value_dim % 16 == 0);
  CHECK(shape.n_heads % shape.n_key_heads == 0);
  CHECK(in.q.n_cols == shape.n_key_heads * shape.key_dim && in.k.n_cols == in.q.n_cols);
  CHECK(in.decay.n_cols == shape.n_heads * (shape.decays_keys ? shape.key_dim : 1));
  CHECK(in.v.n_cols == shape.n_heads * shape.value_dim && out.n_cols == in.v.n_cols);
  const Grid grid = {.x = ceil_div(shape.value_dim, kStateColumns),
                     .y = shape.n_heads,
                     .z = static_cast<uint32_t>(runs.size()),
                     .n_threads = 32};
  const PlacedState* placed = place(runs, out.n_rows);
  memory_.grow(scratch_, n_drafted_ * scratch_of_run(shape));
  require(stream_.launch(kernel, grid,
                         {.runs = placed,
                          .q = view_of(in.q),
                          .k = view_of(in.k),
                          .v = view_of(in.v),
                          .decay = view_of(in.decay),
                          .rate = view_of(in.rate),
                          .out = view_of(out),
                          .n_heads = shape.n_heads,
                          .n_key_heads = shape.n_key_heads,
                          .key_dim = shape.key_dim,
                          .value_dim = shape.value_dim,
                          .is_tiled = shape.is_tiled,
                          .decays_keys = shape.decays_keys,
                          .skips = tables_.put(skips),
                          .scratch = scratch_.floats()}));
}

}  // namespace kvik::cuda
